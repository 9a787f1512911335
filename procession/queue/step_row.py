"""A run as a decision makes it, in the form that one statement writes: the row, encoded once."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from msgspec import Struct, json

from procession.engine.run import (
    Action,
    Compensation,
    HistoryOutcome,
    Run,
    RunStatus,
    Step,
    due,
    running,
    status,
)
from procession.engine.workflow import Definition

encode = json.Encoder().encode  # of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The run that a decision was made on, and the guard that it is written under."""

    tenant: str
    id: UUID
    version: int
    token: int | None = None  # of the lease; None where the caller has locked the run's row
    outputs: dict[int, dict[str, str]] | None = None  # before: rewritten only if changed


class Row(Struct, frozen=True, kw_only=True):
    """A run as it must become, and the history entry of the attempt that ended, if one did."""

    tenant: str
    id: UUID
    version: int
    token: int | None
    status: RunStatus
    compensation: Compensation | None
    completed_at: datetime | None
    cancelled_at: datetime | None
    abandoned_at: datetime | None
    held: bool  # an attempt is in flight still, and its lease stays
    due_at: datetime | None = None
    due_ordinal: int | None = None
    due_undo: bool = False
    due_type: str | None = None
    due_attempt: int | None = None
    actions: tuple[Action, ...]
    outputs: dict[int, dict[str, str]] | None
    ordinal: int | None = None
    undo: bool = False
    number: int | None = None
    outcome: HistoryOutcome | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    response_status: int | None = None
    error: str | None = None
    retryable: bool | None = None
    duration_ms: int | None = None

    @classmethod
    def of(cls, seen: Seen, step: Step, definition: Definition, now: datetime) -> Self:
        """What this step makes of the run that was seen."""
        run = step.run
        assert len(step.history) <= 1, "one attempt of a run is in flight at a time"
        entry = step.history[0] if step.history else None
        return cls(
            tenant=seen.tenant,
            id=seen.id,
            version=seen.version,
            token=seen.token,
            status=status(run),
            compensation=run.compensation,
            completed_at=run.completed_at,
            cancelled_at=run.cancelled_at,
            abandoned_at=run.abandoned_at,
            held=running(run) is not None,
            actions=run.actions,
            outputs=None if run.outputs == seen.outputs else run.outputs,
            **_due(run, definition, now),
            **({} if entry is None else {name: getattr(entry, name) for name in OF_ENTRY}),
        )


OF_ENTRY = (
    "ordinal",
    "undo",
    "number",
    "outcome",
    "started_at",
    "finished_at",
    "response_status",
    "error",
    "retryable",
    "duration_ms",
)


def _due(run: Run, definition: Definition, now: datetime) -> dict[str, Any]:
    one = due(run, definition, now)
    if one is None:
        return {}
    action = run.actions[one.ordinal]
    if one.undo:
        assert action.undo is not None
        action = action.undo
    return {
        "due_at": one.at,
        "due_ordinal": one.ordinal,
        "due_undo": one.undo,
        "due_type": one.type,
        "due_attempt": action.attempts + 1,
    }
