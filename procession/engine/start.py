"""How a run begins, and how each of its attempts does."""

from datetime import datetime

from msgspec.structs import replace

from procession.engine.document import Action, Due, Run, Status, at, put
from procession.engine.status import settled
from procession.engine.workflow import Definition


def start(definition: Definition, now: datetime) -> Run:
    """A run as it is queued. One without actions is finished at once."""
    return settled(Run(created_at=now, actions=tuple(Action() for _ in definition.actions)), now)


def claim(run: Run, due: Due, now: datetime, *, repeatable: bool) -> Run:
    """The run with this action in flight: what the claim's statement writes."""
    action = at(run, due.ordinal, undo=due.undo)
    assert action.status is Status.PENDING, "only a pending action is claimed"
    claimed = replace(
        action,
        status=Status.RUNNING,
        attempts=action.attempts + 1,
        repeatable=repeatable,
        started_at=now,
        next_attempt_at=None,
    )
    return put(run, due.ordinal, claimed, undo=due.undo)
