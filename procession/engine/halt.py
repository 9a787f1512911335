"""What follows when an action ends: a halt skips what comes after it, and may start the undos."""

from datetime import datetime

from msgspec.structs import replace

from procession.engine.document import Action, Compensation, Run, Status
from procession.engine.workflow import Definition, OnFailure

HALTED = "An earlier action halted the run."


def withdraw(action: Action, now: datetime) -> Action:
    """A pending action that is not to start any more.

    Cancelled says that no attempt can have gone through; where that cannot be said it is Unknown.
    """
    ended = Status.UNKNOWN if action.in_doubt else Status.CANCELLED
    return replace(action, status=ended, completed_at=now, next_attempt_at=None, body=None)


def halts(run: Run, definition: Definition, ordinal: int) -> bool:
    """Whether the action holds back the later ones for good, until a person retries it."""
    return definition.actions[ordinal].on_failure is OnFailure.HALT and run.actions[
        ordinal
    ].status in (Status.FAILED, Status.UNKNOWN)


def halt(run: Run, definition: Definition, ordinal: int, now: datetime) -> tuple[Run, int]:
    """The run once this action, or its undo, has ended, and how many later ones a halt skipped.

    An undo is of an action that succeeded, so it halts nothing.
    """
    if not halts(run, definition, ordinal):
        return run, 0
    skipped = 0
    actions = list(run.actions)
    for later in range(ordinal + 1, len(actions)):
        action = actions[later]
        if action.status is not Status.PENDING:
            continue
        if action.in_doubt:
            actions[later] = withdraw(action, now)
        else:
            actions[later] = _skip(action, ordinal, now)
            skipped += 1
    run = replace(run, actions=tuple(actions))
    if _is_undone_by_halt(run, definition, ordinal):
        run = roll_back(run, definition, now)
    return run, skipped


def roll_back(run: Run, definition: Definition, now: datetime) -> Run:
    """The run as its rollback starts: nothing more goes forward, what succeeded is to be undone."""
    actions = tuple(
        _turned_back(action, undoable=one.compensate is not None, now=now)
        for action, one in zip(run.actions, definition.actions, strict=True)
    )
    return replace(run, actions=actions, compensation=Compensation.COMPENSATING, completed_at=None)


def _is_undone_by_halt(run: Run, definition: Definition, ordinal: int) -> bool:
    return (
        run.actions[ordinal].status is Status.FAILED  # after Unknown a person decides
        and run.cancelled_at is None
        and any(one.compensate is not None for one in definition.actions)
        and any(action.status is Status.SUCCEEDED for action in run.actions)
    )


def _turned_back(action: Action, *, undoable: bool, now: datetime) -> Action:
    if action.status is Status.PENDING:
        return withdraw(action, now)
    if action.status is Status.SUCCEEDED:
        return replace(action, undo=Action() if undoable else Action(status=Status.NOT_DECLARED))
    return action


def _skip(action: Action, ordinal: int, now: datetime) -> Action:
    return replace(
        action,
        status=Status.SKIPPED,
        halted_by=ordinal,
        error=HALTED,
        completed_at=now,
        next_attempt_at=None,
        body=None,
    )
