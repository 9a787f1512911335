"""Changing a workflow: each change is one transaction with its audit entry.

The row is locked first, so a save is decided on what is stored and not on what was read before it,
and whoever queues or retries a run waits for the end of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from procession.engine.errors import ConflictError, NotFoundError
from procession.engine.run import Step, cancel
from procession.engine.workflow import Definition
from procession.queue import workflows
from procession.queue.audit import By, Note, note
from procession.queue.commands import decidable, write
from procession.queue.pool import Connection
from procession.queue.stored_run import some
from procession.queue.workflows import Workflow

MOST_UNFINISHED = 200  # runs that a delete cancels in its transaction


@dataclass(frozen=True, slots=True)
class Draft:
    """What a save makes of a workflow."""

    definition: Definition
    enabled: bool
    kept: frozenset[str] = frozenset()  # places of credentials that stand as they are stored


def is_same(one: Definition, other: Definition) -> bool:
    """Whether they are one definition; the order of the conditions is a part of it."""
    return one == other and list(one.conditions) == list(other.conditions)


def noted(action: str, workflow: Workflow, **more: object) -> Note:
    """The audit entry of a change to this workflow."""
    name = workflow.definition.name
    return Note(f"workflow.{action}", "Workflow", str(workflow.id), {"name": name, **more})


async def create(
    conn: Connection, tenant: str, workflow_id: UUID, by: By, draft: Draft
) -> Workflow:
    """Make a workflow. Its id is chosen before, since its credentials are bound to it."""
    async with conn.transaction():
        made = await workflows.insert(
            conn, tenant, workflow_id, draft.definition, enabled=draft.enabled
        )
        await note(conn, tenant, by, noted("created", made, version=made.version))
    return made


async def update(
    conn: Connection, tenant: str, workflow_id: UUID, by: By, revise: Callable[[Workflow], Draft]
) -> Workflow:
    """Replace a workflow by what `revise` makes of the stored one. What it raises undoes all."""
    async with conn.transaction():
        before = await locked(conn, tenant, workflow_id)
        draft = revise(before)
        same = is_same(draft.definition, before.definition)
        if same and draft.enabled == before.enabled:
            return before
        if same:
            await workflows.enable(conn, tenant, workflow_id, enabled=draft.enabled)
        else:
            await workflows.replace(
                conn, tenant, workflow_id, draft.definition, enabled=draft.enabled
            )
        after = await locked(conn, tenant, workflow_id)
        versions = {"version": after.version, "previousVersion": before.version}
        what = noted("updated", after, **versions, enabled=after.enabled)
        await note(conn, tenant, by, what)
    return after


async def switch(
    conn: Connection, tenant: str, workflow_id: UUID, by: By, wanted: Callable[[], bool]
) -> Workflow:
    """Switch a workflow on or off; what is wanted is read once the workflow is found."""
    async with conn.transaction():
        before = await locked(conn, tenant, workflow_id)
        enabled = wanted()
        if before.enabled == enabled:
            return before
        await workflows.enable(conn, tenant, workflow_id, enabled=enabled)
        await note(conn, tenant, by, noted("enabled" if enabled else "disabled", before))
        return await locked(conn, tenant, workflow_id)


async def locked(conn: Connection, tenant: str, workflow_id: UUID) -> Workflow:
    """The workflow, which nobody else changes, deletes or queues for until the transaction ends."""
    workflow = await workflows.lock(conn, tenant, workflow_id)
    if workflow is None:
        raise NotFoundError("workflow")
    return workflow


LOCK_UNFINISHED = """
    select id from run
    where tenant = %(tenant)s and workflow_id = %(workflow_id)s and completed_at is null
    order by id
    for no key update
"""


async def cancel_unfinished(conn: Connection, tenant: str, workflow_id: UUID) -> int:
    """Cancel the runs of a locked workflow, and say how many that changed."""
    named = {"tenant": tenant, "workflow_id": workflow_id}
    cursor = await conn.execute(LOCK_UNFINISHED, named)
    ids = [run_id for (run_id,) in await cursor.fetchall()]
    # read once they are locked: waiting for a lock gives the row as it has become, but the history
    # as the statement saw it when it began
    steps = [
        (found, step)
        for found in map(decidable, await some(conn, tenant, ids))
        if isinstance(step := cancel(found.run, now=found.now, lease_live=found.leased), Step)
        and step.run != found.run
    ]
    await write(conn, tenant, steps)
    return len(steps)


COUNT_UNFINISHED = """
    select count(*) from run
    where tenant = %(tenant)s and workflow_id = %(workflow_id)s and completed_at is null
"""

DELETE = """
    with deleted as (
        update workflow set deleted_at = clock_timestamp(), updated_at = clock_timestamp()
        where tenant = %(tenant)s and id = %(workflow_id)s
    )
    delete from workflow_trigger where tenant = %(tenant)s and workflow_id = %(workflow_id)s
"""


async def delete(conn: Connection, tenant: str, workflow_id: UUID, by: By) -> None:
    """Delete a workflow and cancel what of its runs has not happened."""
    named = {"tenant": tenant, "workflow_id": workflow_id}
    async with conn.transaction():
        workflow = await locked(conn, tenant, workflow_id)
        counted = await conn.execute(COUNT_UNFINISHED, named)
        (unfinished,) = await counted.fetchone() or (0,)
        if unfinished > MOST_UNFINISHED:
            raise ConflictError(
                "too-many-queued-runs",
                f"It has {unfinished} unfinished runs; at most {MOST_UNFINISHED} are cancelled by a"
                " delete. Switch it off, let the worker cancel them, then delete it.",
                {"queuedRuns": unfinished},
            )
        cancelled = await cancel_unfinished(conn, tenant, workflow_id)
        await conn.execute(DELETE, named)
        await note(conn, tenant, by, noted("deleted", workflow, cancelledRuns=cancelled))
