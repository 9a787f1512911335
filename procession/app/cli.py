"""The command line: what can be asked for, and where it is done.

A command ends with 0 when it did what it was asked, with 2 when the command line or a setting is
wrong, and with 1 for every other reason. What it needs is imported when it runs: to print the help
should not take a second.
"""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from typing_extensions import override

from procession.app import remote_lines
from procession.app.arguments import instant, status, utf8, whole
from procession.app.interrupt import ended_as_by_ctrl_c, ended_at_once
from procession.app.say import say

LONGEST_NAME = 200  # of a key
LAST_PORT = 65535


class Parser(argparse.ArgumentParser):
    """One that says in one line what is wrong with the command line."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help says more)\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name."""
    with ended_at_once():
        given = _parser().parse_args(arguments)
        does = resolve_name(given.does)
    with ended_as_by_ctrl_c():
        does(given)


def _parser() -> Parser:
    top = Parser(
        prog="procession",
        description="Runs what must happen after something changed. "
        "Settings are environment variables; docs/settings.md lists them.",
    )
    release = version("procession")
    top.add_argument("--version", action="version", version=release, help="print the release")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, does: str, says: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says, description=says)
        made.set_defaults(does=does)
        return made

    _up(command("up", "procession.app.up:main", "Run everything here, on a Postgres of its own."))
    command("api", "procession.app.api:main", "Serve the API.")
    command("worker", "procession.app.worker:main", "Perform what is due.")
    command("migrate", "procession.app.commands:migrate", "Bring the schema up to this release.")
    _key(command("key", "procession.app.commands:create_key", "Give out a key to the API."))
    command("rekey", "procession.app.commands:rekey", "Write all secrets under the first key.")
    _export(command("export", "procession.app.export:main", "Write runs as lines of JSON."))
    command("sweep", "procession.app.commands:sweep", "Remove all that has been kept long enough.")
    _doctor(command("doctor", "procession.app.doctor:main", "Look the installation over."))
    remote_lines.runs(commands.add_parser)
    remote_lines.workflows(commands.add_parser)
    command("version", "procession.app.cli:say_version", "Print the release.")
    return top


def _up(up: argparse.ArgumentParser) -> None:
    up.add_argument("--no-sample", action="store_true", help="begin with an empty workspace")
    up.add_argument(
        "--data",
        type=_folder,
        default=Path(".procession"),
        metavar="DIR",
        help="where the database and the keys are kept (default: .procession)",
    )
    up.add_argument("--port", type=_port, help="where the API listens (default: PORT, or 8000)")


def _key(key: argparse.ArgumentParser) -> None:
    commands = key.add_subparsers(title="commands", metavar="COMMAND", required=True)
    says = "Make a key, and print it this once."
    create = commands.add_parser("create", help=says, description=says)
    create.add_argument(
        "--tenant", default="default", type=utf8, help="whose key it is (default: default)"
    )
    create.add_argument("--name", required=True, type=_name, help="what it is for")
    create.add_argument(
        "--role", default="Admin", type=utf8, help="what it may do (default: Admin)"
    )
    create.add_argument(
        "--expires-at", type=instant, metavar="TIME", help="such as 2027-01-31T12:00, in UTC"
    )


def _export(export: argparse.ArgumentParser) -> None:
    export.add_argument(
        "--tenant", default="default", type=utf8, help="whose runs (default: default)"
    )
    export.add_argument(
        "--status",
        action="append",
        default=[],
        type=status,
        metavar="STATUS",
        help="only runs that stand so, such as Succeeded; may be given again for another",
    )
    export.add_argument(
        "--before",
        type=instant,
        metavar="TIME",
        help="only runs that ended before, such as 2027-01-31T12:00, in UTC",
    )
    export.add_argument(
        "--output", type=_file, metavar="FILE", help="a new file (default: standard output)"
    )
    export.add_argument(
        "--resume",
        action="store_true",
        help="go on with the file: by what it lacks, and by what has changed since",
    )


def _doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.add_argument("--json", action="store_true", help="say it to a machine")
    doctor.add_argument(
        "--requeue",
        action="store_true",
        help="first make the queue anew from the runs; workers may go on meanwhile",
    )


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("takes a folder")
    return Path(text)


def _file(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("takes a file")
    return Path(text)


def _port(text: str) -> str:
    return str(whole(text, 1, LAST_PORT))


def _name(text: str) -> str:
    if not text.strip() or len(text) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"takes 1 to {LONGEST_NAME} characters, not blank")
    return utf8(text)


def say_version(_: argparse.Namespace) -> None:
    """Print the release."""
    say(version("procession"))
