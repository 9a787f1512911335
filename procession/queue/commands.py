"""What a person does to a run: lock it, let the engine decide, write it, and note who did it.

One transaction each. The row is read under its lock, so no claim or outcome comes in between, and
a command needs no worker. A command that could make something start holds the workflow in share
mode first: a delete of the workflow comes wholly before it or wholly after.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import DataError, IntegrityError

from procession.engine import run as engine
from procession.engine.errors import ConflictError, NotFoundError
from procession.engine.run import (
    DOCUMENT_FORMAT,
    Refusal,
    Status,
    Step,
    WorkflowState,
    running,
)
from procession.queue.audit import By, Note, note
from procession.queue.pool import Connection
from procession.queue.save import AT_ONCE, save
from procession.queue.step_row import Row, Seen, encode
from procession.queue.stored_run import StoredRun, one

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """The run that a command is for, and who gives it."""

    tenant: str
    run_id: UUID
    by: By


LOCK = """
    select from run where tenant = %(tenant)s and id = %(id)s
    for no key update
"""


async def locked(conn: Connection, target: Target) -> StoredRun:
    """The run as it is now, and as it stays until the transaction ends."""
    await conn.execute(LOCK, {"tenant": target.tenant, "id": target.run_id})
    found = await one(conn, target.tenant, target.run_id)  # a statement that begins after the lock
    if found is None:
        raise NotFoundError("run")
    return decidable(found)


NEWER = "A newer release has written the run {}. It is left to that release."
UNREADABLE = "The run {} cannot be read, for its row was edited by hand. Put that right first."
UNWRITABLE = "What would become of it cannot be stored, for a row was edited by hand."


def decidable(found: StoredRun) -> StoredRun:
    """The run, if all of it can be read: what is decided on a part would drop the rest."""
    if not found.is_read:
        newer = found.document_format > DOCUMENT_FORMAT
        raise ConflictError("run-changed", (NEWER if newer else UNREADABLE).format(found.id))
    return found


HOLD_WORKFLOW = """
    select enabled, deleted_at is not null from workflow
    where tenant = %(tenant)s
      and id = (select workflow_id from run where tenant = %(tenant)s and id = %(id)s)
    for share
"""


async def workflow_held(conn: Connection, target: Target) -> WorkflowState:
    """Whether the run's workflow lets work begin, for as long as the transaction lasts."""
    cursor = await conn.execute(HOLD_WORKFLOW, {"tenant": target.tenant, "id": target.run_id})
    row = await cursor.fetchone()
    if row is None:
        raise NotFoundError("run")
    enabled, deleted = row
    return WorkflowState.of(enabled=enabled, deleted=deleted)


async def cancel(conn: Connection, target: Target) -> StoredRun:
    """Stop what has not happened."""
    async with conn.transaction():
        found = await locked(conn, target)
        decided = engine.cancel(found.run, now=found.now, lease_live=found.leased)
        return await carry_out(conn, target, found, decided, _cancelled)


async def force_end(conn: Connection, target: Target) -> StoredRun:
    """End it from any state, at once."""
    async with conn.transaction():
        found = await locked(conn, target)
        decided = engine.force_end(found.run, now=found.now)
        return await carry_out(conn, target, found, decided, _force_ended)


async def abandon(conn: Connection, target: Target) -> StoredRun:
    """Undo what has happened."""
    async with conn.transaction():
        workflow = await workflow_held(conn, target)
        found = await locked(conn, target)
        decided = engine.abandon(found.run, found.definition, now=found.now, workflow=workflow)
        return await carry_out(conn, target, found, decided, _abandoned)


async def retry(conn: Connection, target: Target, ordinal: int) -> StoredRun:
    """Put one action back to due."""
    async with conn.transaction():
        workflow = await workflow_held(conn, target)
        found = await locked(conn, target)
        if ordinal >= len(found.actions):
            raise NotFoundError("action")
        decided = engine.retry(
            found.run,
            found.definition,
            ordinal,
            now=found.now,
            lease_live=found.leased,
            workflow=workflow,
        )
        return await carry_out(conn, target, found, decided, _retried(found, ordinal))


Describe = Callable[[Step], tuple[str, dict[str, object]]]


async def carry_out(
    conn: Connection, target: Target, found: StoredRun, decided: Step | Refusal, describe: Describe
) -> StoredRun:
    """Write what was decided of a locked run; what changes nothing is written nowhere."""
    if isinstance(decided, Refusal):
        raise refused(decided)
    if decided.run == found.run:
        return found
    await write(conn, target.tenant, [(found, decided)])
    action, metadata = describe(decided)
    about = {"workflow": str(found.workflow_id), **metadata}
    what = Note(f"workflow.{action}", "WorkflowRun", str(target.run_id), about)
    await note(conn, target.tenant, target.by, what)
    return await locked(conn, target)


HALTED = "Action {0} halted this run. Retry action {0} to resume."


def refused(refusal: Refusal) -> ConflictError:
    """The refusal as a problem."""
    if refusal.halted_by is None:
        return ConflictError(refusal.code)
    named = {"haltedBy": refusal.halted_by}
    return ConflictError(refusal.code, HALTED.format(refusal.halted_by), named)


async def write(conn: Connection, tenant: str, steps: Sequence[tuple[StoredRun, Step]]) -> None:
    """Write steps of locked runs, all of them or none."""
    rows = [row(tenant, found, step) for found, step in steps]
    for first in range(0, len(rows), AT_ONCE):
        batch = rows[first : first + AT_ONCE]
        try:
            saved = await save(conn, batch)
        except (DataError, IntegrityError) as error:  # a number may be too large, say
            log.exception("What was decided on a run cannot be written")
            raise ConflictError("run-changed", UNWRITABLE) from error
        if len(saved) < len(batch):
            raise ConflictError("run-changed")


def row(tenant: str, found: StoredRun, step: Step) -> bytes:
    """The step as `save` takes it."""
    if found.document_format > DOCUMENT_FORMAT:  # what this release cannot read, it would drop
        raise ConflictError("run-changed", NEWER.format(found.id))
    seen = Seen(tenant=tenant, id=found.id, version=found.version, outputs=found.outputs)
    return encode(Row.of(seen, step, found.definition, found.now))


def _cancelled(step: Step) -> tuple[str, dict[str, object]]:
    left_running = 0 if running(step.run) is None else 1
    return "run.cancelled", {"cancelledActions": step.cancelled, "leftRunning": left_running}


def _force_ended(step: Step) -> tuple[str, dict[str, object]]:
    return "run.force-ended", {"cancelledActions": step.cancelled, "unknownActions": step.unknown}


def _abandoned(step: Step) -> tuple[str, dict[str, object]]:
    undos = [action.undo.status for action in step.run.actions if action.undo is not None]
    not_declared = undos.count(Status.NOT_DECLARED)
    return "run.abandoned", {"undos": len(undos) - not_declared, "notDeclared": not_declared}


def _retried(found: StoredRun, ordinal: int) -> Describe:
    def described(step: Step) -> tuple[str, dict[str, object]]:
        before = found.actions[ordinal]
        permanent = before.status is Status.FAILED and before.retryable is False
        metadata: dict[str, object] = {
            "ordinal": ordinal,
            "actionType": found.definition.actions[ordinal].type,
            "wasUnknown": before.status is Status.UNKNOWN,
            "wasPermanent": permanent,
        }
        if step.resumed:
            metadata["resumedActions"] = step.resumed
        return "action.retried", metadata

    return described
