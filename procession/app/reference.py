"""The table of `docs/settings.md`, written from the settings by `make docs`; a test compares."""

import sys
from pathlib import Path

from pydantic.fields import FieldInfo

from procession.app.environment import PREFIXES, takes
from procession.app.settings import Settings

BEGIN, END = "<!-- the table is written by `make docs` -->", "<!-- until here -->"


def renewed(page: str) -> str:
    """The page with the table as it should be."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def table() -> str:
    """All variables, in the order of the settings."""
    rows = [_row(field) for field in Settings.model_fields.values()]
    beginnings = ", ".join(f"`{one}`" for one in PREFIXES)
    return "\n".join(
        [
            f"The prefixes are {beginnings}.",
            "",
            "| variable | default | takes | what it is |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def _row(field: FieldInfo) -> str:
    cells = (field.alias, _default(field), takes(field), field.description)
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none, required"
    if field.alias == "SECRETS__KEYS":
        return "none, required but by migrate"
    if field.alias == "PORT":
        return "8000, of a worker 8001"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return str(field.default) if field.default or field.default == 0 else "none"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
