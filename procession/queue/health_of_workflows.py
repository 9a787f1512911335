"""How each workflow of a tenant has been doing: its last ends, and what a window of days says."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Struct
from psycopg.rows import dict_row

from procession.engine.run import Compensation, RunStatus
from procession.queue.pool import Connection
from procession.queue.runs import Span


class LastOutcome(Struct, frozen=True, kw_only=True):
    """How one of its newest runs ended."""

    id: UUID
    status: RunStatus
    compensation: Compensation | None
    abandoned_at: datetime | None
    completed_at: datetime


class Health(Struct, frozen=True, kw_only=True):
    """How one workflow has been doing."""

    id: UUID
    name: str
    enabled: bool
    last: tuple[LastOutcome, ...]  # the newest first
    succeeded: int  # in the window, like all that follows
    finished: int  # those that were cancelled left out
    duration_ms: float | None  # the mean of the actions of its newest runs


# `finished_of_workflow` holds all that is counted: only the rows of the newest runs are read.
PAGE = """
    select total.count as total, part.id, part.name, part.enabled, last.runs as last,
           counted.succeeded, counted.finished, newest.duration_ms
    from (select count(*) from workflow
          where tenant = %(tenant)s and deleted_at is null) as total
    left join lateral (
        select id, name, enabled from workflow
        where tenant = %(tenant)s and deleted_at is null
        order by name, id
        limit %(limit)s offset %(offset)s
    ) as part on true
    left join lateral (
        select coalesce(json_agg(row_to_json(one)), '[]')::text as runs
        from (select id, status, compensation, abandoned_at, completed_at from run
              where tenant = %(tenant)s and workflow_id = part.id and completed_at is not null
              order by completed_at desc, id
              limit 10) as one
    ) as last on true
    left join lateral (
        select count(*) filter (where status = 'Succeeded') as succeeded, count(*) as finished
        from run
        where tenant = %(tenant)s and workflow_id = part.id
          and completed_at >= now() - %(window)s::interval and status <> 'Cancelled'
    ) as counted on true
    left join lateral (
        select avg((action ->> 'duration_ms')::float) as duration_ms
        from (select actions from run
              where tenant = %(tenant)s and workflow_id = part.id
                and completed_at >= now() - %(window)s::interval
              order by completed_at desc, id
              limit 200) as one,
             jsonb_array_elements(one.actions) as action
    ) as newest on true
    order by part.name, part.id
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and how long all of it is."""

    items: list[Health]
    total: int


async def page(conn: Connection, tenant: str, window: timedelta, span: Span) -> Page:
    """Workflows by name, then id, with what they did within the window."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(PAGE, {"tenant": tenant, "window": window, **span.values})
        rows = await cursor.fetchall()
    found = [
        msgspec.convert(row | {"last": msgspec.json.decode(row["last"])}, Health)
        for row in rows
        if row["id"] is not None
    ]
    return Page(found, rows[0]["total"])
