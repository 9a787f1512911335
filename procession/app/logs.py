"""What the processes say: a JSON object a line, or a line for a person to read.

No line holds a parameter, a key or a full address. So what a library says is masked like an error
that is stored, and of an exception the type and the places are kept, never its message.
"""

import json
import logging
import re
import sys
import threading
import traceback
from dataclasses import asdict
from datetime import UTC, datetime
from types import TracebackType

from typing_extensions import override

from procession.app.plain import plain
from procession.engine.redaction import redact
from procession.outbound.spans import trace_id
from procession.queue.types import about

log = logging.getLogger(__name__)

OURS = "procession"
# They tell at INFO what must not be told: arguments of jobs, full addresses.
HUSHED = ("procrastinate", "httpx2", "httpcore2", "uvicorn", "asyncio")
# It shows what it was at, and so what was given to it and raised; of that the rest of a line tells.
LOOP = "asyncio"
NOTHING_GIVEN = re.compile(r"Exception in callback|[^\n<]*")
# They try again each second for as long as the database is away, and say so each time.
REPEATING = ("procession.app.keeper", "procession.queue.manager", "psycopg.pool")
# What the pool says of a connection that was closed on purpose, or whose end was met and told of.
NEEDLESS = "discarding closed connection: %s"
# It warns of what came to it that is no HTTP, which anybody can send, as often as it comes.
SERVER = "uvicorn.error"
SELDOM = 60.0  # seconds until one of them may say the same again

Raised = tuple[type[BaseException], BaseException, TracebackType | None]


def set_up(level: str, form: str) -> None:
    """Send everything to standard error in this form, from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines() if form == "json" else Text())
    handler.addFilter(Seldom())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in HUSHED:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(capture=True)
    threading.excepthook, sys.unraisablehook = _ended, _unraised


def _ended(one: threading.ExceptHookArgs) -> None:
    """Of an action, say: nobody else is told what ended it."""
    log.error("A thread ended by an error", exc_info=_raised(one))


def _unraised(one: "sys.UnraisableHookArgs") -> None:
    log.error("An error came where none can be raised", exc_info=_raised(one))


def _raised(one: "threading.ExceptHookArgs | sys.UnraisableHookArgs") -> Raised | None:
    error = one.exc_value
    return None if error is None else (type(error), error, one.exc_traceback)


class Seldom(logging.Filter):
    """Keeps back what is of no use, and what one that repeats itself said a short time ago."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}  # ours are few: they name kinds of faults

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == NEEDLESS:
            return False
        of_anybody = record.name == SERVER and record.levelno == logging.WARNING
        if record.name not in REPEATING and not of_anybody:
            return True
        is_ours = record.name.partition(".")[0] == OURS
        text = record.getMessage() if is_ours else record.msg  # before what fills it
        if record.created - self._said.get(text, -SELDOM) < SELDOM:
            return False
        self._said[text] = record.created
        return True


def said(record: logging.LogRecord) -> str:
    """The message; of a logger that is not ours, without what it must not tell."""
    message = record.getMessage().rstrip()
    if record.name == LOOP and (words := NOTHING_GIVEN.match(message)):
        message = words[0].rstrip()
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


def concerning() -> dict[str, object]:
    """What is worked on: as much of tenant, run, action, attempt and correlation as is known."""
    known = {name: value for name, value in asdict(about.get()).items() if value is not None}
    if "run" in known:
        known["run"] = str(known["run"])
    if found := trace_id():
        known["trace_id"] = found
    return known


class Lines(logging.Formatter):
    """A JSON object a line, for a machine to read."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": said(record),
            **concerning(),
        }
        if raised := cause(record):
            line |= {"error": raised[0], "trace": raised[1:]}
        return json.dumps(line)


class Text(logging.Formatter):
    """A line for a person, with the places of an error below it."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        known = ", ".join(f"{name} {value}" for name, value in concerning().items())
        of = f" ({known})" if known else ""
        lines = [plain(f"{at} {record.levelname.lower():<7} {said(record)}{of}"), *cause(record)]
        return "\n    ".join(lines)
