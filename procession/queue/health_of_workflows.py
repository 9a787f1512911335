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


# Counted along `ended_of_workflow`, whose key says all that is asked; the ends and the newest are
# found by `finished_of_workflow`, and only their rows are read. The actions are spread out in a
# list of columns: as a table, Postgres would remember each document in case it came again.
PAGE = """
    select total.count as total, part.id, part.name, part.enabled, last.runs as last,
           counted.succeeded, counted.succeeded + counted.failed as finished, newest.duration_ms
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
        select (select count(*) from run
                where tenant = %(tenant)s and workflow_id = part.id and status = 'Succeeded'
                  and completed_at >= now() - %(window)s::interval) as succeeded,
               (select count(*) from run
                where tenant = %(tenant)s and workflow_id = part.id
                  and status in ('Failed', 'PartiallyFailed')
                  and completed_at >= now() - %(window)s::interval) as failed
    ) as counted on true
    left join lateral (
        select avg(action.duration_ms) as duration_ms
        from (select (jsonb_array_elements(one.actions) ->> 'duration_ms')::float as duration_ms
              from (select actions from run
                    where tenant = %(tenant)s and workflow_id = part.id
                      and completed_at >= now() - %(window)s::interval
                    order by completed_at desc, id
                    limit 200) as one) as action
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
