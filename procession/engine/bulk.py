"""One verb for many runs: each is decided as if it had been asked for alone."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from msgspec.structs import replace

from procession.engine.commands import WorkflowState, abandon, cancel, retry
from procession.engine.document import Action, Refusal, Run, RunStatus, Status, Step, running
from procession.engine.status import status
from procession.engine.workflow import Definition

NOTHING_TO_RETRY = "nothing-to-retry"


class Verb(StrEnum):
    """What is done to each run."""

    RETRY = "Retry"
    CANCEL = "Cancel"
    ABANDON = "Abandon"

    @property
    def capability(self) -> str:
        """What it takes, here as for one run."""
        return "manage_workflows" if self is Verb.CANCEL else "retry_workflow_actions"

    @property
    def meant_for(self) -> tuple[RunStatus, ...]:
        """The statuses of the runs that it is for, where none are named."""
        if self is Verb.CANCEL:
            return RunStatus.PENDING, RunStatus.RUNNING
        return RunStatus.FAILED, RunStatus.PARTIALLY_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked for. Only a retry looks at `unknown`: whether what may have happened counts."""

    verb: Verb
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a decision needs to know besides the run."""

    now: datetime
    lease_live: bool
    workflow: WorkflowState


def decide(order: Order, run: Run, definition: Definition, at: Moment) -> Step | Refusal:
    """What the verb makes of this run."""
    match order.verb:
        case Verb.CANCEL:
            return cancel(run, now=at.now, lease_live=at.lease_live)
        case Verb.ABANDON:
            return abandon(run, definition, now=at.now, workflow=at.workflow)
        case Verb.RETRY:
            return _retry(run, definition, at, unknown=order.unknown)


def _retry(run: Run, definition: Definition, at: Moment, *, unknown: bool) -> Step | Refusal:
    """Retry each action that has failed or waits to be tried again; the first refusal, if none."""
    wanted = [
        ordinal
        for ordinal, action in enumerate(run.actions)
        if _has_failed(action, at.now) or (unknown and action.status is Status.UNKNOWN)
    ]
    step, refusal = Step(run=run), None if wanted else Refusal(code=_why_none(run))
    for ordinal in wanted:
        decided = retry(
            step.run,
            definition,
            ordinal,
            now=at.now,
            lease_live=at.lease_live,
            workflow=at.workflow,
        )
        if isinstance(decided, Refusal):
            refusal = refusal or decided
        else:
            step = replace(decided, resumed=step.resumed + decided.resumed)
    return refusal if refusal and step.run == run else step


def _has_failed(action: Action, now: datetime) -> bool:
    waits = action.next_attempt_at is not None and action.next_attempt_at > now
    return action.status is Status.FAILED or (action.status is Status.PENDING and waits)


def _why_none(run: Run) -> str:
    if run.compensation is not None:
        return "run-rolled-back"
    if run.cancelled_at is not None or status(run) is RunStatus.CANCELLED:
        return "run-cancelled"
    return "action-in-flight" if running(run) else NOTHING_TO_RETRY
