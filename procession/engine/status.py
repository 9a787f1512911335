"""Where a run stands: computed from its actions after every change, and never set by hand."""

from datetime import datetime

from msgspec.structs import replace

from procession.engine.document import Action, Compensation, Run, RunStatus, Status

OPEN = (Status.PENDING, Status.RUNNING)


def status(run: Run) -> RunStatus:
    """The first row of the table of statuses that applies."""
    if any(one.undo is not None and one.undo.status in OPEN for one in run.actions):
        return RunStatus.RUNNING
    statuses = [one.status for one in run.actions]
    pending = statuses.count(Status.PENDING)
    if Status.RUNNING in statuses or 0 < pending < len(statuses):
        return RunStatus.RUNNING
    if pending:
        return RunStatus.PENDING
    if statuses and (run.cancelled_at is not None or Status.CANCELLED in statuses):
        return RunStatus.CANCELLED
    good = sum(map(is_good, run.actions))
    if good == len(statuses):
        return RunStatus.SUCCEEDED
    return RunStatus.PARTIALLY_FAILED if good else RunStatus.FAILED


def is_good(action: Action) -> bool:
    """Whether it did what there was to do."""
    return action.status is Status.SUCCEEDED or (
        action.status is Status.SKIPPED and action.halted_by is None
    )


def settled(run: Run, now: datetime) -> Run:
    """The run with its end, and that of its rollback, as its actions call for."""
    if status(run) in (RunStatus.PENDING, RunStatus.RUNNING):
        return run if run.completed_at is None else replace(run, completed_at=None)
    if run.compensation is Compensation.COMPENSATING:
        run = replace(run, compensation=compensation(run))
    return run if run.completed_at is not None else replace(run, completed_at=now)


def compensation(run: Run) -> Compensation:
    """What a rollback came to once no undo is open."""
    succeeded = (action for action in run.actions if action.status is Status.SUCCEEDED)
    if all(one.undo is not None and one.undo.status is Status.SUCCEEDED for one in succeeded):
        return Compensation.COMPENSATED
    return Compensation.INCOMPLETE
