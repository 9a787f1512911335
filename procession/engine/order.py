"""Which action of a run is next.

Actions go by rising ordinal, one at a time; one that waits lets the later ones by unless it halts.
Undos go by falling ordinal, and one that waits holds back the rest.
"""

from datetime import datetime

from procession.engine.document import Action, Compensation, Due, Run, Status
from procession.engine.status import OPEN
from procession.engine.workflow import Definition, OnFailure


def due(run: Run, definition: Definition, now: datetime) -> Due | None:
    """The action to claim next, and from when; nothing while one is in flight, or once all ended.

    What may go at once is due since the run was queued, so that runs that have begun end before
    newer ones begin.
    """
    if run.compensation is Compensation.COMPENSATING:
        return _due_undo(run, definition, now)
    found: tuple[datetime, int] | None = None
    decided = False
    for ordinal, action in enumerate(run.actions):
        if action.status is Status.RUNNING:
            return None  # looked for to the end: a retried action may stand before it
        if decided or action.status is not Status.PENDING:
            continue
        at = _from_when(action, run, now)
        if found is None or at < found[0]:
            found = at, ordinal
        decided = definition.actions[ordinal].on_failure is OnFailure.HALT
    if found is None:
        return None
    at, ordinal = found
    return Due(at, ordinal, undo=False, type=definition.actions[ordinal].type)


def _due_undo(run: Run, definition: Definition, now: datetime) -> Due | None:
    for ordinal in reversed(range(len(run.actions))):
        undo = run.actions[ordinal].undo
        if undo is None or undo.status not in OPEN:
            continue
        if undo.status is Status.RUNNING:
            return None
        compensate = definition.actions[ordinal].compensate
        assert compensate is not None, "an undo that is open was declared"
        return Due(_from_when(undo, run, now), ordinal, undo=True, type=compensate.type)
    return None


def _from_when(action: Action, run: Run, now: datetime) -> datetime:
    waits_until = action.next_attempt_at
    if waits_until is None or waits_until <= now:
        return min(run.created_at, now)  # a clock may have been set since, and a row edited
    return waits_until
