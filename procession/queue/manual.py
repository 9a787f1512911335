"""A run that a person, or an application, asks for by hand.

Its workflow is held in share mode until it is queued, so it is switched off, changed or deleted
wholly before or after. Asked for under a key, its id is made of the request, so that the request
said again finds the run, and two at once make one.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

import msgspec

from procession.engine.conditions import first_failing
from procession.engine.entry import MANUAL, Entry, may_read
from procession.engine.errors import (
    ConflictError,
    Fault,
    NotFoundError,
    ProcessionError,
    ValidationFailedError,
)
from procession.queue import workflows
from procession.queue.audit import By, Note, note
from procession.queue.ids import uuid7
from procession.queue.pool import Connection
from procession.queue.start import NewRun, Origin, start
from procession.queue.stored_entry import entry_in
from procession.queue.workflows import Workflow

OF_KEYS = UUID("6f0a2f0e-0f1c-5a58-9d0c-5f6a7b8c9d01")  # the space that names of keys are in


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for, and by whom."""

    tenant: str
    workflow_id: UUID
    entry_id: str
    content_type: str | None  # None: the only one of the workflow's that has the entry
    key: str | None
    by: By
    origin: Origin
    capabilities: frozenset[str]

    def id_for(self, content_type: str) -> UUID:
        """The id of its run: of the key, if there is one."""
        if self.key is None:
            return uuid7()
        actor = self.origin.actor
        named = (self.tenant, str(self.workflow_id), content_type, self.entry_id)
        return uuid5(
            OF_KEYS, msgspec.json.encode((*named, actor.kind, actor.id, self.key)).decode()
        )


@dataclass(frozen=True, slots=True)
class Started:
    """The run, and whether it was there already."""

    run_id: UUID
    is_repeat: bool = False


async def run(conn: Connection, wish: Wish) -> Started:
    """Queue the run, unless the same request has queued it; raises why it may not be."""
    made = await repeated(conn, wish)
    if made is None:
        try:
            return await queue(conn, wish)
        except ProcessionError:
            made = await repeated(conn, wish)  # the same request was faster, and then all changed
            if made is None:
                raise
    return Started(made, is_repeat=True)


CONTENT_TYPES = """
    select distinct content_type from run
    where tenant = %(tenant)s and entry_id = %(entry_id)s and workflow_id = %(workflow_id)s
"""
REPEATED = """
    select id from run
    where tenant = %(tenant)s and id = any(%(ids)s::uuid[])
    order by created_at
    limit 1
"""


async def repeated(conn: Connection, wish: Wish) -> UUID | None:
    """The run that this very request has queued before, whatever has changed since."""
    if wish.key is None:
        return None
    named = {"tenant": wish.tenant, "entry_id": wish.entry_id, "workflow_id": wish.workflow_id}
    if wish.content_type is None:
        cursor = await conn.execute(CONTENT_TYPES, named)
        content_types = [name for (name,) in await cursor.fetchall()]
    else:
        content_types = [wish.content_type]
    ids = [wish.id_for(one) for one in content_types]
    row = await (await conn.execute(REPEATED, {"tenant": wish.tenant, "ids": ids})).fetchone()
    return None if row is None else row[0]


async def queue(conn: Connection, wish: Wish) -> Started:
    """Queue it in a transaction with its audit entry."""
    async with conn.transaction():
        workflow = await held(conn, wish)
        entry, now = await entry_of(conn, wish, workflow)
        allow(workflow, entry)
        new = NewRun(
            id=wish.id_for(entry.content_type),
            workflow_id=workflow.id,
            workflow_version=workflow.version,
            definition=workflow.definition,
            content_type=entry.content_type,
            entry_id=entry.id,
            trigger=MANUAL,
            origin=wish.origin,
            at=now,
            started_by=wish.origin.actor,
        )
        if not await start(conn, wish.tenant, [new]):
            return Started(new.id, is_repeat=True)
        about = {"workflow": str(workflow.id), "runId": str(new.id)}
        about |= {"entryId": entry.id, "contentType": entry.content_type}
        what = Note("workflow.run.manual", "WorkflowRun", str(new.id), about)
        await note(conn, wish.tenant, wish.by, what)
    return Started(new.id)


HOLD = """
    select from workflow
    where tenant = %(tenant)s and id = %(id)s and deleted_at is null
    for share
"""


async def held(conn: Connection, wish: Wish) -> Workflow:
    """The workflow as it is now, and as it stays until the transaction ends."""
    await conn.execute(HOLD, {"tenant": wish.tenant, "id": wish.workflow_id})
    found = await workflows.one(conn, wish.tenant, wish.workflow_id)  # begins after the lock
    if found is None:
        raise NotFoundError("workflow")
    return found


# Not locked: each attempt reads the entry as it is then, and whoever writes one goes on to lock
# workflows.
ENTRIES = """
    select row_to_json(entry)::text, clock_timestamp() from entry
    where tenant = %(tenant)s and id = %(entry_id)s
      and content_type = any(array(
              select name from content_type
              where tenant = %(tenant)s and coalesce(name = %(content_type)s::text, true)))
    order by content_type
"""


async def entry_of(conn: Connection, wish: Wish, workflow: Workflow) -> tuple[Entry, datetime]:
    """The one entry that is meant, and the time. What the caller may not read does not exist."""
    named = {
        "tenant": wish.tenant,
        "entry_id": wish.entry_id,
        "content_type": wish.content_type,
    }
    cursor = await conn.execute(ENTRIES, named)
    found = [(entry_in(row), now) async for row, now in cursor]
    readable = [one for one in found if may_read(one[0].sensitivity, wish.capabilities)]
    if not readable:
        raise NotFoundError("entry")
    known = workflow.definition.trigger_content_types
    meant = [one for one in readable if one[0].content_type in known]
    if not meant:
        rule = f"must be one that the workflow names: {', '.join(known)}"
        raise ValidationFailedError([Fault("contentType", rule)])
    if len(meant) > 1:
        several = ", ".join(entry.content_type for entry, _ in meant)
        rule = f"is required, since several have an entry with this id: {several}"
        raise ValidationFailedError([Fault("contentType", rule)])
    return meant[0]


def allow(workflow: Workflow, entry: Entry) -> None:
    """Refuse a workflow that is off, or whose conditions the entry does not meet."""
    if not workflow.enabled:
        raise ConflictError("workflow-disabled")
    failing = first_failing(workflow.definition.conditions, entry)
    if failing is not None:
        detail = f"The entry does not meet the condition on {failing}."
        raise ConflictError("conditions-not-met", detail, {"condition": failing})
