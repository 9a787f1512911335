"""A run as the engine sees it, and what a decision about it says.

An undo is an action's second life: the same type, inside the action it undoes, through the same
functions. What may happen to a run is in `engine.run`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

DOCUMENT_FORMAT = 1  # of `Run.actions` as stored; a worker leaves newer ones alone

Instant = Annotated[datetime, Meta(tz=True)]  # one without its zone is compared with no other


class Status(StrEnum):
    """Where an action, or its undo, stands."""

    # Behind each is who moves it on.
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
    started_at: Instant | None = None  # of the attempt in flight
    next_attempt_at: Instant | None = None  # while it waits on back-off
    response_status: int | None = None
    error: str | None = None
    retryable: bool | None = None
    completed_at: Instant | None = None
    duration_ms: int | None = None
    halted_by: int | None = None
    body: str | None = None  # the webhook's, from before it is first sent to its end
    undo: "Action | None" = None  # once the run is rolled back; of a succeeded action only


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
    cancelled: int = 0  # actions and undos that this step made Cancelled
    unknown: int = 0  # that it made Unknown
    resumed: int = 0  # skipped actions that it made Pending again


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a command may not be carried out: the 409's code, and the ordinal it names."""

    code: str
    halted_by: int | None = None


def is_finished(run: Run) -> bool:
    """Whether it has ended; a retry or an abandon may open it again."""
    return run.completed_at is not None


def running(run: Run) -> tuple[int, bool] | None:
    """The ordinal that is in flight, and whether it is its undo. There is one at most."""
    for ordinal, action in enumerate(run.actions):
        if action.status is Status.RUNNING:
            return ordinal, False
        if action.undo is not None and action.undo.status is Status.RUNNING:
            return ordinal, True
    return None


def at(run: Run, ordinal: int, *, undo: bool) -> Action:
    """The action at this place, or its undo."""
    action = run.actions[ordinal]
    if not undo:
        return action
    assert action.undo is not None, "only an action that succeeded in a rolled back run has an undo"
    return action.undo


def put(run: Run, ordinal: int, action: Action, *, undo: bool) -> Run:
    """The run with this one in place of what is there."""
    if undo:
        action = replace(run.actions[ordinal], undo=action)
    return replace(run, actions=(*run.actions[:ordinal], action, *run.actions[ordinal + 1 :]))
