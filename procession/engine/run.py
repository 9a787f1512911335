"""What may happen to a run.

Nothing here reads a clock, a socket or a table: a function takes the run and what happened, and
returns the run that should become true (a `Step`), or why it may not (a `Refusal`). The queue makes
it so. This is the door; a reader starts with `document`, then `order`, `settle` and `commands`.
"""

from procession.engine.backoff import backoff
from procession.engine.document import (
    DOCUMENT_FORMAT,
    Action,
    Compensation,
    Due,
    HistoryEntry,
    HistoryOutcome,
    Refusal,
    Run,
    RunStatus,
    Status,
    Step,
    is_finished,
    running,
)
from procession.engine.loss import discard, lose, release
from procession.engine.order import due
from procession.engine.settle import settle, unserved
from procession.engine.start import claim, start
from procession.engine.status import status

__all__ = [
    "DOCUMENT_FORMAT",
    "Action",
    "Compensation",
    "Due",
    "HistoryEntry",
    "HistoryOutcome",
    "Refusal",
    "Run",
    "RunStatus",
    "Status",
    "Step",
    "backoff",
    "claim",
    "discard",
    "due",
    "is_finished",
    "lose",
    "release",
    "running",
    "settle",
    "start",
    "status",
    "unserved",
]
