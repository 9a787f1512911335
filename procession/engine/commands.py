"""What a person may do to a run, and what the worker does to one whose workflow is off.

A command that may not be carried out is a `Refusal` with the first code that applies. One that
changes nothing gives the very run it was given, so that nothing is written or audited.

`run-changed` is not decided here: it is for the caller who finds that the run moved on before the
write.
"""

from datetime import datetime
from enum import StrEnum

from msgspec.structs import replace

from procession.engine.document import (
    Action,
    HistoryEntry,
    HistoryOutcome,
    Refusal,
    Run,
    RunStatus,
    Status,
    Step,
    is_finished,
    put,
    running,
)
from procession.engine.ending import doubtful, in_flight, left
from procession.engine.halt import halts, roll_back, withdraw
from procession.engine.loss import WENT_AWAY
from procession.engine.status import settled, status
from procession.engine.workflow import Definition

FORCE_ENDED = "The run was force-ended before the action's outcome was recorded."


class WorkflowState(StrEnum):
    """Whether the workflow of a run still lets work begin."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DELETED = "deleted"

    @classmethod
    def of(cls, *, enabled: bool, deleted: bool) -> "WorkflowState":
        """As its row says."""
        if deleted:
            return cls.DELETED
        return cls.ENABLED if enabled else cls.DISABLED


def cancel(run: Run, *, now: datetime, lease_live: bool) -> Step | Refusal:
    """Stop what has not happened. What is in flight under a live lease ends by itself."""
    if is_finished(run):
        return Refusal(code="run-finished")
    return _withdrawn(run, now, ended_by=None if lease_live else WENT_AWAY)


def stop(run: Run, *, now: datetime) -> Step:
    """Cancel the rest of a run, as the worker does when it reaches one whose workflow is off."""
    return Step(run=run) if is_finished(run) else _withdrawn(run, now, ended_by=None)


def force_end(run: Run, *, now: datetime) -> Step | Refusal:
    """End an unfinished run from any state, at once."""
    if is_finished(run):
        return Refusal(code="run-finished")
    return _withdrawn(run, now, ended_by=FORCE_ENDED)


def abandon(
    run: Run, definition: Definition, *, now: datetime, workflow: WorkflowState
) -> Step | Refusal:
    """Undo what has happened."""
    succeeded = [action.status is Status.SUCCEEDED for action in run.actions]
    code = _first(
        ("run-rolled-back", run.compensation is not None),
        ("run-cancelled", _is_cancelled(run)),
        ("action-in-flight", running(run) is not None),
        ("nothing-succeeded", not any(succeeded)),
        ("everything-succeeded", all(succeeded)),
        *_of_workflow(workflow),
    )
    if code is not None:
        return Refusal(code=code)
    abandoned = roll_back(replace(run, abandoned_at=now), definition, now)
    return _step(run, settled(abandoned, now))


def retry(  # noqa: PLR0913 - what the refusals ask for
    run: Run,
    definition: Definition,
    ordinal: int,
    *,
    now: datetime,
    lease_live: bool,
    workflow: WorkflowState,
) -> Step | Refusal:
    """Put one action back to due, and what its halt had skipped back behind it."""
    action = run.actions[ordinal]
    halted_by = _halter(run, definition, ordinal)
    code = _first(
        ("run-rolled-back", run.compensation is not None),
        ("run-cancelled", _is_cancelled(run)),
        ("action-succeeded", action.status is Status.SUCCEEDED),
        ("action-in-flight", action.status is Status.RUNNING and lease_live),
        ("action-skipped-behind-halt", halted_by is not None),
        *_of_workflow(workflow),
    )
    if code is not None:
        behind = code == "action-skipped-behind-halt"
        return Refusal(code=code, halted_by=halted_by if behind else None)
    if action.status is Status.PENDING and not _waits(action, now):
        return Step(run=run)
    history: tuple[HistoryEntry, ...] = ()
    if action.status is Status.RUNNING:
        history = (in_flight(run).entry(HistoryOutcome.LOST, WENT_AWAY, now),)
    retried = put(run, ordinal, _afresh(action), undo=False)
    retried, resumed = _resume(retried, definition, ordinal)
    return Step(run=settled(retried, now), history=history, resumed=resumed)


def _withdrawn(run: Run, now: datetime, *, ended_by: str | None) -> Step:
    """The run with nothing more to start; with `ended_by`, what is in flight ends as Unknown."""
    after, history = run, ()
    if ended_by is not None and running(run) is not None:
        attempt = in_flight(run)
        entry = attempt.entry(HistoryOutcome.UNKNOWN, ended_by, now)
        after, history = left(run, entry, doubtful(attempt, ended_by)), (entry,)
    actions = tuple(_stopped(action, now) for action in after.actions)
    if actions == run.actions and run.cancelled_at is not None:
        return Step(run=run)
    after = replace(after, actions=actions, cancelled_at=run.cancelled_at or now)
    return _step(run, settled(after, now), history)


def _stopped(action: Action, now: datetime) -> Action:
    if action.status is Status.PENDING:
        return withdraw(action, now)
    if action.undo is not None and action.undo.status is Status.PENDING:
        return replace(action, undo=withdraw(action.undo, now))
    return action


def _step(before: Run, after: Run, history: tuple[HistoryEntry, ...] = ()) -> Step:
    return Step(
        run=after,
        history=history,
        cancelled=_count(after, Status.CANCELLED) - _count(before, Status.CANCELLED),
        unknown=_count(after, Status.UNKNOWN) - _count(before, Status.UNKNOWN),
    )


def _count(run: Run, status: Status) -> int:
    undos = (action.undo for action in run.actions if action.undo is not None)
    return sum(one.status is status for one in (*run.actions, *undos))


def _first(*cases: tuple[str, bool]) -> str | None:
    return next((code for code, applies in cases if applies), None)


def _of_workflow(workflow: WorkflowState) -> tuple[tuple[str, bool], ...]:
    return (
        ("workflow-deleted", workflow is WorkflowState.DELETED),
        ("workflow-disabled", workflow is WorkflowState.DISABLED),
    )


def _is_cancelled(run: Run) -> bool:
    return run.cancelled_at is not None or status(run) is RunStatus.CANCELLED


def _waits(action: Action, now: datetime) -> bool:
    return action.next_attempt_at is not None and action.next_attempt_at > now


def _halter(run: Run, definition: Definition, ordinal: int) -> int | None:
    """The action whose halt stands before this one."""
    skipped_by = run.actions[ordinal].halted_by
    if skipped_by is not None:
        return skipped_by
    return next((one for one in range(ordinal) if halts(run, definition, one)), None)


def _afresh(action: Action) -> Action:
    """The action as a retry leaves it: its number, its doubt and its undropped body go on."""
    return Action(attempts=action.attempts, in_doubt=_in_doubt(action), body=action.body)


def _in_doubt(action: Action) -> bool:
    return action.in_doubt or action.status is Status.RUNNING  # a lapsed attempt may have gone out


def _resume(run: Run, definition: Definition, ordinal: int) -> tuple[Run, int]:
    """The run with what this action's halt skipped Pending again.

    A later action that would itself halt keeps what is behind it, for no action starts after one
    that halts and has neither succeeded nor been skipped.
    """
    resumed, halter = 0, None
    actions = list(run.actions)
    for later in range(ordinal + 1, len(actions)):
        action = actions[later]
        if action.halted_by == ordinal and halter is None:
            actions[later] = replace(
                action, status=Status.PENDING, halted_by=None, error=None, completed_at=None
            )
            resumed += 1
        elif action.halted_by == ordinal:
            actions[later] = replace(action, halted_by=halter)
        elif halter is None and halts(run, definition, later):
            halter = later
    return replace(run, actions=tuple(actions)), resumed
