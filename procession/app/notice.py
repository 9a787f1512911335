"""What a worker says of actions that wait for a person from now on.

A line names the run, the action and its type, and no error: what a third party said of it is in the
run's history, for those who may read that.
"""

import logging
from uuid import UUID

from procession.engine.document import at
from procession.engine.run import HistoryEntry, Status, Step
from procession.engine.workflow import Definition
from procession.queue.types import Happened, Recorded, Released, Rescued, Unserved, current_run

log = logging.getLogger(__name__)


def notice(happened: Happened) -> None:
    """Warn of each action that ended badly in this."""
    match happened:
        case Recorded(claim, step) | Released(claim, step):
            for entry in step.history:
                _warn(claim.id, step, entry, _type(claim.definition, entry))
        case Rescued(_, run_id, step):
            for entry in step.history:
                _warn(run_id, step, entry)
        case Unserved(_, run_id, _):
            _say(run_id, "An action ended Failed, since no worker serves its type")
        case _:
            pass


def _type(definition: Definition, entry: HistoryEntry) -> str:
    action = definition.actions[entry.ordinal]
    done = action.compensate if entry.undo else action
    return f" {done.type}" if done else ""


def _warn(run_id: UUID, step: Step, entry: HistoryEntry, type_: str = "") -> None:
    status = at(step.run, entry.ordinal, undo=entry.undo).status
    if status in {Status.FAILED, Status.UNKNOWN}:
        what = "The undo of action" if entry.undo else "Action"
        halted = ", and halted the run" if step.halted else ""
        _say(run_id, f"{what} {entry.ordinal}{type_} ended {status}{halted}")


def _say(run_id: UUID, text: str) -> None:
    before = current_run.set(run_id)
    log.warning(text)
    current_run.reset(before)
