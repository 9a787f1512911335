"""What a worker says of actions that wait for a person from now on.

A line names the run, the action and its type, and no error: what a third party said of it is in the
run's history, for those who may read that.
"""

import logging
from uuid import UUID

from procession.engine.document import at
from procession.engine.run import HistoryEntry, Status, Step
from procession.engine.workflow import Definition
from procession.queue.types import About, Happened, Recorded, Released, Rescued, Unserved, about

log = logging.getLogger(__name__)


def notice(happened: Happened) -> None:
    """Warn of each action that ended badly in this; who debugs is told of every attempt."""
    match happened:
        case Recorded(claim, step) | Released(claim, step):
            for entry in step.history:
                _warn(claim.about, step, entry, _type(claim.definition, entry))
        case Rescued(tenant, run_id, step):
            for entry in step.history:
                _warn(_of(tenant, run_id, entry), step, entry)
        case Unserved(tenant, run_id, _):
            what = About(tenant=tenant, run=run_id)
            _say(what, logging.WARNING, "An action ended Failed, since no worker serves its type")
        case _:
            pass


def _type(definition: Definition, entry: HistoryEntry) -> str:
    action = definition.actions[entry.ordinal]
    done = action.compensate if entry.undo else action
    return f" {done.type}" if done else ""


def _of(tenant: str, run_id: UUID, entry: HistoryEntry) -> About:
    return About(tenant=tenant, run=run_id, action=entry.ordinal, attempt=entry.number)


def _warn(what: About, step: Step, entry: HistoryEntry, type_: str = "") -> None:
    status = at(step.run, entry.ordinal, undo=entry.undo).status
    named = f"{'The undo of action' if entry.undo else 'Action'} {entry.ordinal}{type_}"
    if status in {Status.FAILED, Status.UNKNOWN}:
        halted = ", and halted the run" if step.halted else ""
        _say(what, logging.WARNING, f"{named} ended {status}{halted}")
    elif log.isEnabledFor(logging.DEBUG):
        _say(what, logging.DEBUG, f"{named}: attempt {entry.number} ended {entry.outcome}")


def _say(what: About, level: int, text: str) -> None:
    before = about.set(what)
    log.log(level, text)
    about.reset(before)
