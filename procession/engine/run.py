"""What may happen to a run.

Nothing here reads a clock, a socket or a table: a function takes the run and what happened, and
returns the run that should become true (a `Step`), or why it may not (a `Refusal`). The queue makes
it so. This is the door; a reader starts with `document`, then `order`, `settle` and `commands`.
"""

from procession.engine.backoff import backoff
from procession.engine.commands import (
    WorkflowState,
    abandon,
    cancel,
    force_end,
    retry,
    stop,
)
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
from procession.engine.waiting import LiveWorker, Reason, Waiting, waiting

__all__ = [
    "DOCUMENT_FORMAT",
    "Action",
    "Compensation",
    "Due",
    "HistoryEntry",
    "HistoryOutcome",
    "LiveWorker",
    "Reason",
    "Refusal",
    "Run",
    "RunStatus",
    "Status",
    "Step",
    "Waiting",
    "WorkflowState",
    "abandon",
    "backoff",
    "cancel",
    "claim",
    "discard",
    "due",
    "force_end",
    "is_finished",
    "lose",
    "release",
    "retry",
    "running",
    "settle",
    "start",
    "status",
    "stop",
    "unserved",
    "waiting",
]
