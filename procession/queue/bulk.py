"""Verbs for many runs: asked for, looked at and stopped. A worker carries them out, `bulk_turn`.

It is asked for in one transaction with the job that has a worker begin at once; should that be
lost, each worker looks every minute anyway.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

import msgspec
from msgspec import Struct
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from procession.engine.access import Actor
from procession.engine.bulk import Order, Verb
from procession.engine.errors import ConflictError, found
from procession.engine.run import RunStatus
from procession.queue.audit import By, Note, note
from procession.queue.ids import uuid7
from procession.queue.named import row_of
from procession.queue.pool import Connection
from procession.queue.runs import Span


class Chosen(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Which runs of a tenant; what is None narrows nothing. Kept as it was asked for."""

    status: tuple[RunStatus, ...]
    workflow_id: UUID | None = None
    entry_id: str | None = None
    content_type: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


# Literal pieces and not "is null or": with those a prepared plan can use one index only.
PIECES: dict[str, LiteralString] = {
    "status": "and status = any (%(status)s)",
    "workflow_id": "and workflow_id = %(workflow_id)s",
    "entry_id": "and entry_id = %(entry_id)s",
    "content_type": "and content_type = %(content_type)s",
    "created_from": "and created_at >= %(created_from)s",
    "created_before": "and created_at < %(created_before)s",
}


def values(chosen: Chosen) -> Mapping[str, object]:
    """The filters as parameters."""
    given = {name: getattr(chosen, name) for name in PIECES}
    return {**given, "status": list(chosen.status)}


def narrowed(statement: LiteralString, chosen: Chosen) -> LiteralString:
    """The statement with its filters in their place."""
    pieces: list[LiteralString] = [
        piece for name, piece in PIECES.items() if getattr(chosen, name) is not None
    ]
    return statement.replace("/* filters */", " ".join(pieces))


COUNT = """
    select count(*) from run
    where tenant = %(tenant)s and created_at <= now() /* filters */
"""


async def count(conn: Connection, tenant: str, chosen: Chosen) -> int:
    """How many runs there are to decide on."""
    wanted = {"tenant": tenant, **values(chosen)}
    cursor = await conn.execute(narrowed(COUNT, chosen), wanted)
    (matched,) = await cursor.fetchone() or (0,)
    return matched


class Stands(StrEnum):
    """How it stands."""

    # Behind each is who moves it on.
    QUEUED = "Queued"  # a worker that begins, or a person who stops it
    RUNNING = "Running"  # the worker that comes to the end of it, or a person who stops it
    DONE = "Done"  # nobody
    STOPPED = "Stopped"  # nobody


class Bulk(Struct, frozen=True, kw_only=True):
    """What was asked for, and how far it has come."""

    id: UUID
    verb: Verb
    unknown: bool
    filter: Chosen
    asked_by: Actor | None
    created_at: datetime
    status: Stands
    matched: int
    done: int
    changed: int
    refused: dict[str, int]
    finished_at: datetime | None
    ip: str | None = None  # of who asked


def bulk_of(row: DictRow) -> Bulk:
    """The row as a value."""
    return msgspec.convert(row, Bulk)


MOST = 20  # that a tenant may have unfinished: what it asks for goes round among its own
# The tenant's row is locked, so that two who ask at once are both counted.
ONE_BY_ONE = "select from tenant where slug = %(tenant)s for no key update"
UNFINISHED = "select count(*) from bulk where tenant = %(tenant)s and finished_at is null"

ASK = """
    insert into bulk (tenant, id, verb, unknown, filter, asked_by, ip, matched)
    values (%(tenant)s, %(id)s, %(verb)s, %(unknown)s, %(filter)s, %(asked_by)s, %(ip)s,
            %(matched)s)
    returning *
"""
QUEUE = """
    insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args)
    values ('maintenance', 'bulk', 'bulk', '{"timestamp": 0}')
    on conflict do nothing
"""


async def queue(conn: Connection) -> None:
    """Have a worker begin a turn, unless one is called already."""
    await conn.execute(QUEUE)


async def make_room(conn: Connection, tenant: str) -> None:
    """Refuse one more than a tenant may have at a time."""
    await conn.execute(ONE_BY_ONE, {"tenant": tenant})
    cursor = await conn.execute(UNFINISHED, {"tenant": tenant})
    (unfinished,) = await cursor.fetchone() or (0,)
    if unfinished >= MOST:
        raise ConflictError("too-many-bulks", f"{unfinished} are unfinished. Stop one, or wait.")


async def ask(conn: Connection, tenant: str, by: By, order: Order, chosen: Chosen) -> Bulk:
    """Have a worker carry it out."""
    async with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
        await make_room(conn, tenant)
        await cursor.execute(
            ASK,
            {
                "tenant": tenant,
                "id": uuid7(),
                "verb": order.verb,
                "unknown": order.unknown,
                "filter": Jsonb(chosen, dumps=msgspec.json.encode),
                "asked_by": None
                if by.actor is None
                else Jsonb(by.actor, dumps=msgspec.json.encode),
                "ip": by.ip,
                "matched": await count(conn, tenant, chosen),
            },
        )
        row = await cursor.fetchone()
        await queue(conn)
    assert row is not None  # what an insert returns
    return bulk_of(row)


ONE = """
    select * from bulk where tenant = %(tenant)s and id = %(id)s
"""


async def one(conn: Connection, tenant: str, bulk_id: UUID) -> Bulk:
    """How it stands."""
    return bulk_of(found(await row_of(conn, ONE, {"tenant": tenant, "id": bulk_id}), "bulk"))


COUNT_ALL = "select count(*) from bulk where tenant = %(tenant)s"
PAGE = """
    select * from bulk where tenant = %(tenant)s
    order by created_at desc, id
    limit %(limit)s offset %(offset)s
"""


async def page(conn: Connection, tenant: str, span: Span) -> tuple[Sequence[Bulk], int]:
    """Part of them, the newest first, and how many there are."""
    wanted = {"tenant": tenant, **span.values}
    counted = await conn.execute(COUNT_ALL, wanted)
    (total,) = await counted.fetchone() or (0,)
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(PAGE, wanted)
        return [bulk_of(row) async for row in cursor], total


# Who works on it holds the row for the length of a batch, and finds its token gone after that.
STOP = """
    update bulk set status = 'Stopped', finished_at = clock_timestamp(), token = null,
        lease_until = null
    where tenant = %(tenant)s and id = %(id)s and finished_at is null
    returning *
"""


async def stop(conn: Connection, tenant: str, bulk_id: UUID, by: By) -> Bulk:
    """Leave what is not done yet undone."""
    async with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(STOP, {"tenant": tenant, "id": bulk_id})
        row = await cursor.fetchone()
        if row is None:
            await one(conn, tenant, bulk_id)
            raise ConflictError("bulk-finished")
        stopped = bulk_of(row)
        await note_end(conn, tenant, stopped, by.actor)
    return stopped


async def note_end(
    conn: Connection, tenant: str, ended: Bulk, stopped_by: Actor | None = None
) -> None:
    """The one audit entry of all that it has changed, in the name of who asked for it."""
    if not ended.changed:
        return
    about = {
        "verb": ended.verb,
        "filter": msgspec.to_builtins(ended.filter),
        "status": ended.status,
        "matched": ended.matched,
        "done": ended.done,
        "changed": ended.changed,
        "refused": ended.refused,
        **({} if stopped_by is None else {"stoppedBy": stopped_by.id}),
    }
    asker = By(ended.asked_by, ended.ip)
    await note(conn, tenant, asker, Note("workflow.runs.bulk", "Bulk", str(ended.id), about))
