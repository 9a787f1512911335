"""What may happen to a run.

Nothing here reads a clock, a socket or a table: a function takes the run and what happened, and
returns the run that should become true (a `Step`), or why it may not (a `Refusal`). The queue makes
it so. An undo is an action's second life: the same type, through the same functions.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

DOCUMENT_FORMAT = 1  # of `Run.actions` as stored; a worker leaves newer ones alone


class Status(StrEnum):
    """Where an action, or its undo, stands. The comment says who moves it on."""

    PENDING = "Pending"  # a worker that claims it once it is due
    RUNNING = "Running"  # the holder of the lease; whoever finds the lease lapsed
    SUCCEEDED = "Succeeded"  # nobody: its undo has a state of its own
    FAILED = "Failed"  # a person who retries it
    UNKNOWN = "Unknown"  # a person who retries it, knowing that it may have happened
    SKIPPED = "Skipped"  # a person who retries the action that halted the run
    CANCELLED = "Cancelled"  # nobody
    NOT_DECLARED = "NotDeclared"  # nobody; of an undo that the definition does not have


class RunStatus(StrEnum):
    """Where a run stands; always computed from its actions."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PARTIALLY_FAILED = "PartiallyFailed"
    CANCELLED = "Cancelled"


class Compensation(StrEnum):
    """How the whole of a run's undos stands."""

    COMPENSATING = "Compensating"
    COMPENSATED = "Compensated"
    INCOMPLETE = "Incomplete"


class Action(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one action, or of its undo, as the run's document keeps it."""

    status: Status = Status.PENDING
    attempts: int = 0  # claimed so far, the one in flight included; never reset
    failures: int = 0  # that count toward the five
    lost: int = 0  # in a row
    in_doubt: bool = False  # an attempt may have gone out, and none has succeeded since
    repeatable: bool = False  # of the attempt in flight
    started_at: datetime | None = None  # of the attempt in flight
    next_attempt_at: datetime | None = None  # while it waits on back-off
    response_status: int | None = None
    error: str | None = None
    retryable: bool | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    halted_by: int | None = None
    body: str | None = None  # the webhook's, from its first recorded attempt to its end
    undo: "Action | None" = None  # once the run is rolled back


class Run(Struct, frozen=True, kw_only=True):
    """What the engine knows of a run: the columns it decides on, and the document."""

    created_at: datetime
    actions: tuple[Action, ...]
    outputs: dict[int, dict[str, str]] = {}  # captured, by ordinal
    completed_at: datetime | None = None
    cancelled_at: datetime | None = None
    abandoned_at: datetime | None = None
    compensation: Compensation | None = None


class Due(Struct, frozen=True):
    """The action that may be claimed next, and from when."""

    at: datetime  # the run's created_at for one that may go at once
    ordinal: int
    undo: bool
    type: str


class HistoryOutcome(StrEnum):
    """What a history entry says of its attempt."""

    SUCCEEDED = "Succeeded"
    RETRIED = "Retried"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    SKIPPED = "Skipped"
    LOST = "Lost"
    RELEASED = "Released"
    DISCARDED = "Discarded"


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One attempt, as the history keeps it."""

    ordinal: int
    undo: bool
    number: int
    outcome: HistoryOutcome
    started_at: datetime | None
    finished_at: datetime
    response_status: int | None = None
    error: str | None = None
    retryable: bool | None = None
    duration_ms: int | None = None


class Step(Struct, frozen=True, kw_only=True):
    """What a decision makes true, in one write."""

    run: Run
    history: tuple[HistoryEntry, ...] = ()
    halted: int = 0  # later actions that a halt skipped in this step


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a command may not be carried out: the code of the 409, and the ordinal it names if any."""

    code: str
    halted_by: int | None = None
