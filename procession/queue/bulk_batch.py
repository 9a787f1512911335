"""The runs that a verb for many comes to next, and what becomes of them."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from procession.engine.bulk import Moment, Order, Verb, decide
from procession.engine.errors import ConflictError
from procession.engine.run import DOCUMENT_FORMAT, Refusal, Step, WorkflowState
from procession.queue.bulk import Bulk, narrowed, values
from procession.queue.commands import row
from procession.queue.pool import Connection
from procession.queue.save import WEIGHT, save_many
from procession.queue.stored_run import StoredRun, some

# Along the index by age; whoever was queued after it was asked for is left alone. Documents may be
# large, with a body in each action that waits: no more of those than a worker has the memory for.
NEXT = """
    select id, created_at, workflow_id from (
        select id, created_at, workflow_id,
               sum(weight) over (order by created_at, id desc rows unbounded preceding)
               - weight as before
        from (
            select id, created_at, workflow_id, /* weight */ as weight from run
            where tenant = %(tenant)s and created_at <= %(asked_at)s /* after */ /* filters */
            order by created_at, id desc
            limit %(limit)s
        ) as next
    ) as sized
    where before < %(large)s
    order by created_at, id desc
""".replace("/* weight */", WEIGHT)
LARGE = 16_000_000  # bytes of documents, by their weight, behind which no other is begun
AFTER = """
      and created_at >= %(past_at)s and (created_at > %(past_at)s or id < %(past_id)s)
"""

HOLD_WORKFLOWS = """
    select id, enabled, deleted_at is not null from workflow
    where tenant = %(tenant)s and id = any (%(ids)s)
    order by id
    for share
"""
LOCK = """
    select from run
    where tenant = %(tenant)s and id = any (%(ids)s)
    order by id
    for no key update
"""


@dataclass(frozen=True, slots=True)
class Held:
    """How it stands, and the run that it has come to."""

    bulk: Bulk
    past_at: datetime | None
    past_id: UUID | None


@dataclass(frozen=True, slots=True)
class Next:
    """A run to deal with."""

    id: UUID
    created_at: datetime
    workflow_id: UUID


@dataclass(frozen=True, slots=True)
class Dealt:
    """What became of some runs: how many were changed, and how many refused, by code."""

    last: Next
    done: int
    changed: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])


async def following(conn: Connection, tenant: str, held: Held, size: int) -> list[Next]:
    """The runs that come next."""
    chosen = held.bulk.filter
    place = {"asked_at": held.bulk.created_at, "past_at": held.past_at, "past_id": held.past_id}
    after = AFTER if held.past_id else ""
    wanted = {"tenant": tenant, "limit": size, "large": LARGE, **place, **values(chosen)}
    async with conn.cursor(row_factory=class_row(Next)) as cursor:
        await cursor.execute(narrowed(NEXT.replace("/* after */", after), chosen), wanted)
        return await cursor.fetchall()


async def deal(conn: Connection, tenant: str, bulk: Bulk, runs: Sequence[Next]) -> Dealt:
    """Lock the runs, decide on each, and write what changes."""
    ids = [one.id for one in runs]
    states = dict[UUID, WorkflowState]()
    if bulk.verb is not Verb.CANCEL:  # which lets nothing begin
        states = await workflows_held(conn, tenant, {one.workflow_id for one in runs})
    await conn.execute(LOCK, {"tenant": tenant, "ids": ids})
    order = Order(verb=bulk.verb, unknown=bulk.unknown)
    steps, refused = list[tuple[StoredRun, Step]](), Counter[str]()
    for found in await some(conn, tenant, ids):
        if found.document_format > DOCUMENT_FORMAT or not found.is_read:
            refused["run-changed"] += 1  # by a newer release, or by hand
            continue
        at = Moment(
            now=found.now,
            lease_live=found.leased,
            workflow=states.get(found.workflow_id, WorkflowState.ENABLED),
        )
        step = decide(order, found.run, found.definition, at)
        if isinstance(step, Refusal):
            refused[step.code] += 1
        elif step.run != found.run:
            steps.append((found, step))
    if len(await save_many(conn, [row(tenant, *one) for one in steps])) < len(steps):
        raise ConflictError("run-changed")
    return Dealt(runs[-1], len(runs), len(steps), refused)


async def workflows_held(
    conn: Connection, tenant: str, ids: Collection[UUID]
) -> dict[UUID, WorkflowState]:
    """Whether each workflow lets work begin, for as long as the transaction lasts."""
    cursor = await conn.execute(HOLD_WORKFLOWS, {"tenant": tenant, "ids": list(ids)})
    return {
        id_: WorkflowState.of(enabled=enabled, deleted=deleted)
        async for id_, enabled, deleted in cursor
    }
