"""What the processes say: a JSON object a line, or a line for a person to read.

No line holds a parameter, a key or a full address. So what a library says is masked like an error
that is stored, and of an exception the type and the places are kept, never its message.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

from typing_extensions import override

from procession.engine.redaction import redact
from procession.queue.types import current_run

OURS = "procession"
# They tell at INFO what must not be told: arguments of jobs, full addresses.
HUSHED = ("procrastinate", "httpx2", "httpcore2", "uvicorn", "asyncio")


def set_up(level: str, form: str) -> None:
    """Send everything to standard error in this form, from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines() if form == "json" else Text())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in HUSHED:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(capture=True)


def said(record: logging.LogRecord) -> str:
    """The message; of a logger that is not ours, without what it must not tell."""
    message = record.getMessage()
    return message if record.name.partition(".")[0] == OURS else redact(message)


def cause(record: logging.LogRecord) -> list[str]:
    """The type of what was raised, then the places it passed, the innermost last."""
    raised = record.exc_info
    if not raised or raised[0] is None:  # False, where a library passes that
        return []
    places = traceback.extract_tb(raised[2])
    return [
        raised[0].__name__,
        *(f"{one.filename}:{one.lineno} {one.name}" for one in places),
    ]


class Lines(logging.Formatter):
    """A JSON object a line, for a machine to read."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": said(record),
        }
        if run := current_run.get():
            line["run"] = str(run)
        if raised := cause(record):
            line |= {"error": raised[0], "trace": raised[1:]}
        return json.dumps(line)


class Text(logging.Formatter):
    """A line for a person, with the places of an error below it."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        run = f" (run {one})" if (one := current_run.get()) else ""
        lines = [f"{at} {record.levelname.lower():<7} {said(record)}{run}", *cause(record)]
        return "\n    ".join(lines)
