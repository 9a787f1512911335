"""The command `procession`, and `python -m procession`, from its first import on."""

from procession.app.interrupt import ended_at_once


def main() -> None:
    """Run the command that the command line names."""
    with ended_at_once():
        from procession.app import cli  # noqa: PLC0415  what takes long is imported under it

        cli.main()


if __name__ == "__main__":
    main()
