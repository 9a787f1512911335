"""Reading runs: a page of the newest, what changed since a moment, and how many stand where.

A statement is planned anew each time: which index is near depends on what is asked for, since one
workflow may have half of the runs and another a few.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg.rows import class_row, dict_row

from procession.engine.run import LiveWorker, RunStatus
from procession.queue.pool import Connection
from procession.queue.stored_run import READ, StoredRun, stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which runs of a tenant; what is None filters nothing."""

    status: RunStatus | None = None
    workflow_id: UUID | None = None
    entry_id: str | None = None
    content_type: str | None = None

    @property
    def values(self) -> Mapping[str, object]:
        return {
            "status": self.status,
            "workflow_id": self.workflow_id,
            "entry_id": self.entry_id,
            "content_type": self.content_type,
        }


# Literal pieces and not "is null or": with those a prepared plan can use one index only.
PIECES: dict[str, LiteralString] = {
    "workflow_id": "and workflow_id = %(workflow_id)s",
    "entry_id": "and entry_id = %(entry_id)s",
    "content_type": "and content_type = %(content_type)s",
}
# Those that ended have an index by their status. The others are few or among the newest, and their
# status is compared in a way that leads to no index that would have to be read from end to end.
ENDED: LiteralString = "and status = %(status)s and completed_at is not null"
UNFINISHED: LiteralString = "and status || '' = %(status)s and completed_at is null"
OPEN = (RunStatus.PENDING, RunStatus.RUNNING)


def narrowed(statement: LiteralString, filters: Filters) -> LiteralString:
    """The statement with its filters in their place."""
    values = filters.values
    pieces: list[LiteralString] = [
        piece for name, piece in PIECES.items() if values[name] is not None
    ]
    if filters.status is not None:
        pieces.append(UNFINISHED if filters.status in OPEN else ENDED)
    return statement.replace("/* filters */", " ".join(pieces))


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a list."""

    limit: int
    offset: int

    @property
    def values(self) -> Mapping[str, object]:
        return {"limit": self.limit, "offset": self.offset}


# The ids come from an index alone; only the runs of the page are read.
PAGE = READ.replace(
    "/* which */",
    """
      and run.id = any (array(
            select id from run
            where tenant = %(tenant)s /* filters */
            order by created_at desc, id
            limit %(limit)s offset %(offset)s))
    order by run.created_at desc, run.id
""",
)
FROM_THE_END = PAGE.replace("order by created_at desc, id\n", "order by created_at, id desc\n")


async def page(
    conn: Connection, tenant: str, filters: Filters, span: Span, total: int
) -> list[StoredRun]:
    """Runs, the newest first, of so many in all; found from the nearer end of them."""
    if total <= span.offset:
        return []
    statement = PAGE
    behind = max(0, total - span.offset - span.limit)
    if behind < span.offset:
        statement, span = FROM_THE_END, Span(min(span.limit, total - span.offset), behind)
    wanted = {"tenant": tenant, **filters.values, **span.values}
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(narrowed(statement, filters), wanted, prepare=False)
        return [stored(row) async for row in cursor]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many runs stand where, at a moment of the database's clock."""

    now: datetime
    by_status: Mapping[str, int]


# Grouped by the whole key of an index that holds all of it: nothing is sorted, nothing hashed. That
# there is a content type is what leads to it.
COUNTS = """
    select now() as now, coalesce(json_object_agg(status, runs), '{}') as by_status
    from (
        select status, sum(runs)::bigint as runs
        from (
            select status, count(*) as runs from run
            where tenant = %(tenant)s and content_type <> '' /* filters */
            group by content_type, status) as standing
        group by status) as counted
"""
# Of a workflow or an entry, which have an index of their own.
COUNTS_OF_ONE = """
    select now() as now, coalesce(json_object_agg(status, runs), '{}') as by_status
    from (
        select status, count(*) as runs from run
        where tenant = %(tenant)s /* filters */
        group by status) as counted
"""


def counting(filters: Filters) -> LiteralString:
    """The statement that counts what these filters let through, whatever their status."""
    of_one = filters.workflow_id is not None or filters.entry_id is not None
    return narrowed(COUNTS_OF_ONE if of_one else COUNTS, replace(filters, status=None))


async def counts(conn: Connection, tenant: str, filters: Filters) -> Counts:
    """The tenant's runs by status, whatever status the filters ask for."""
    wanted = {"tenant": tenant, **filters.values}
    async with conn.cursor(row_factory=class_row(Counts)) as cursor:
        await cursor.execute(counting(filters), wanted, prepare=False)
        row = await cursor.fetchone()
    assert row is not None  # an aggregate without groups is one row
    return row


LEAST = UUID(int=0)  # below the id of any run


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the order of changes: a time and all that changed at it, or after a run's own."""

    at: datetime
    after: UUID = LEAST

    @property
    def values(self) -> Mapping[str, object]:
        return {"at": self.at, "after": self.after}


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many runs changed behind a place, at a moment of the database's clock."""

    now: datetime
    total: int


AHEAD = """
    select now() as now, count(*) as total from run
    where tenant = %(tenant)s and (updated_at, id) > (%(at)s, %(after)s) /* filters */
"""


async def ahead(conn: Connection, tenant: str, filters: Filters, place: Place) -> Ahead:
    """What there is to read behind the place; asked before it is read."""
    wanted = {"tenant": tenant, **filters.values, **place.values}
    async with conn.cursor(row_factory=class_row(Ahead)) as cursor:
        await cursor.execute(narrowed(AHEAD, filters), wanted, prepare=False)
        row = await cursor.fetchone()
    assert row is not None  # an aggregate without groups is one row
    return row


CHANGED = READ.replace(
    "/* which */",
    """
      and run.id = any (array(
            select id from run
            where tenant = %(tenant)s and (updated_at, id) > (%(at)s, %(after)s) /* filters */
            order by updated_at, id
            limit %(limit)s offset %(offset)s))
    order by run.updated_at, run.id
""",
)


async def changed(
    conn: Connection, tenant: str, filters: Filters, place: Place, span: Span
) -> list[StoredRun]:
    """Runs that changed behind the place, in the order they did."""
    wanted = {"tenant": tenant, **filters.values, **place.values, **span.values}
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(narrowed(CHANGED, filters), wanted, prepare=False)
        return [stored(row) async for row in cursor]


LIVE_WORKERS = """
    select document_format, action_types, claims from worker
    where heartbeat_at > now() - interval '15 seconds'
"""


async def live_workers(conn: Connection) -> list[LiveWorker]:
    """The workers that serve every tenant."""
    cursor = await conn.execute(LIVE_WORKERS)
    return [
        LiveWorker(
            document_format=document_format, action_types=frozenset(action_types), claims=claims
        )
        async for document_format, action_types, claims in cursor
    ]
