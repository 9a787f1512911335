"""A run on the wire: an allow-list. What is not named here does not leave.

Parameters, keys, tokens, lease holders and bodies have no field, so nothing can put them in one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from pydantic import Field

from procession.api.deps import on_the_wire
from procession.api.shapes import Answer, Time, Who
from procession.engine.access import Actor
from procession.engine.run import (
    Action,
    Compensation,
    HistoryOutcome,
    LiveWorker,
    Reason,
    RunStatus,
    Status,
    running,
    waiting,
)
from procession.engine.workflow import Compensate, OnFailure
from procession.queue.stored_run import Kept, StoredRun

HISTORY_KEPT = 20  # the newest of an action, and of its undo


def is_none(value: object) -> bool:
    return value is None


class Waiting(Answer):
    """Why the run waits."""

    reason: Reason
    until: Time | None = Field(None, exclude_if=is_none)
    ordinal: int | None = Field(None, exclude_if=is_none)
    action_type: str | None = Field(None, exclude_if=is_none)


class Attempt(Answer):
    """A history entry."""

    attempt: int
    started_at: Time | None
    finished_at: Time
    outcome: HistoryOutcome
    response_status: int | None
    error: str | None
    retryable: bool | None
    duration_ms: int | None


class Undo(Answer):
    """How the undo of an action stands."""

    type: str
    attempts: int
    failures: int
    next_attempt_at: Time | None
    response_status: int | None
    error: str | None
    retryable: bool | None
    completed_at: Time | None
    duration_ms: int | None
    dropped_attempts: int
    history: list[Attempt]


class ActionView(Answer):
    """How an action of the run stands."""

    ordinal: int
    type: str
    on_failure: OnFailure
    status: Status
    attempts: int
    failures: int
    next_attempt_at: Time | None
    response_status: int | None
    error: str | None
    retryable: bool | None
    completed_at: Time | None
    duration_ms: int | None
    halted_by: int | None
    outputs: dict[str, str]
    compensation: Status | None
    undo: Undo | None
    dropped_attempts: int
    history: list[Attempt]


class RunView(Answer):
    """A run."""

    id: UUID
    workflow_id: UUID
    workflow_name: str
    workflow_version: int
    entry_id: str
    content_type: str
    trigger: str
    status: RunStatus
    waiting: Waiting | None
    depth: int
    executor: str | None
    started_by: Who | None
    correlation_id: str | None
    created_at: Time
    updated_at: Time
    completed_at: Time | None
    cancelled_at: Time | None
    abandoned_at: Time | None
    compensation: Compensation | None
    actions: list[ActionView]


def run_view(stored: StoredRun, workers: Sequence[LiveWorker]) -> RunView:
    """The run as answers show it, and why it waits with these workers alive."""
    history = by_action(stored.history)
    return RunView(
        id=stored.id,
        workflow_id=stored.workflow_id,
        workflow_name=stored.workflow_name,
        workflow_version=stored.workflow_version,
        entry_id=stored.entry_id,
        content_type=stored.content_type,
        trigger=stored.trigger,
        status=stored.status,
        waiting=waiting_view(stored, workers),
        depth=stored.depth,
        executor=stored.executor,
        started_by=who(stored.started_by),
        correlation_id=stored.correlation_id,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        completed_at=stored.completed_at,
        cancelled_at=stored.cancelled_at,
        abandoned_at=stored.abandoned_at,
        compensation=stored.compensation,
        actions=[
            action_view(ordinal, action, stored, history)
            for ordinal, action in enumerate(stored.actions)
        ],
    )


def who(actor: Actor | None) -> Who | None:
    return None if actor is None else Who.model_validate(on_the_wire(actor))


def waiting_view(stored: StoredRun, workers: Sequence[LiveWorker]) -> Waiting | None:
    in_flight, _ = running(stored.run) or (None, None)
    why = waiting(
        stored.due,
        stored.now,
        workers=workers,
        lease_until=stored.lease_until,
        in_flight=in_flight,
        no_worker_since=stored.no_worker_since,
        document_format=stored.document_format,
    )
    if why is None:
        return None
    return Waiting(
        reason=why.reason, until=why.until, ordinal=why.ordinal, action_type=why.action_type
    )


History = Mapping[tuple[int, bool], list[Kept]]


def by_action(kept: Sequence[Kept]) -> History:
    """The history of each action and of each undo, in the order it was added."""
    lists: dict[tuple[int, bool], list[Kept]] = {}
    for one in kept:
        lists.setdefault((one.ordinal, one.undo), []).append(one)
    return lists


def action_view(ordinal: int, action: Action, stored: StoredRun, history: History) -> ActionView:
    defined = stored.definition.actions[ordinal]
    return ActionView(
        ordinal=ordinal,
        type=defined.type,
        on_failure=defined.on_failure,
        status=action.status,
        halted_by=action.halted_by,
        outputs=stored.outputs.get(ordinal, {}),
        compensation=action.undo.status if action.undo else None,
        undo=undo_view(action.undo, defined.compensate, history.get((ordinal, True), [])),
        **shared(action, history.get((ordinal, False), [])),
    )


def undo_view(undo: Action | None, defined: Compensate | None, kept: list[Kept]) -> Undo | None:
    if undo is None or defined is None:
        return None
    return Undo(type=defined.type, **shared(undo, kept))


class Shared(TypedDict):
    """What an action and its undo have in common."""

    attempts: int
    failures: int
    next_attempt_at: datetime | None
    response_status: int | None
    error: str | None
    retryable: bool | None
    completed_at: datetime | None
    duration_ms: int | None
    dropped_attempts: int
    history: list[Attempt]


def shared(action: Action, kept: list[Kept]) -> Shared:
    newest = kept[-HISTORY_KEPT:]
    return {
        "attempts": action.attempts,
        "failures": action.failures,
        "next_attempt_at": action.next_attempt_at,
        "response_status": action.response_status,
        "error": action.error,
        "retryable": action.retryable,
        "completed_at": action.completed_at,
        "duration_ms": action.duration_ms,
        "dropped_attempts": newest[0].position - 1 if newest else 0,
        "history": [attempt_view(one) for one in newest],
    }


def attempt_view(kept: Kept) -> Attempt:
    return Attempt(
        attempt=kept.number,
        started_at=kept.started_at,
        finished_at=kept.finished_at,
        outcome=kept.outcome,
        response_status=kept.response_status,
        error=kept.error,
        retryable=kept.retryable,
        duration_ms=kept.duration_ms,
    )
