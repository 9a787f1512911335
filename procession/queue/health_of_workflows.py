"""How each workflow of a tenant has been doing: its last ends, and what a window of days says."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString
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
    failed: int  # wholly or in part
    duration_ms: float | None  # the mean of the actions of its newest runs

    @property
    def finished(self) -> int:
        """How many ended by themselves."""
        return self.succeeded + self.failed


@dataclass(frozen=True, slots=True)
class Window:
    """How far back is looked, and how long runs that succeeded are kept; None for ever."""

    length: timedelta
    kept: timedelta | None = None

    @property
    def holds_most(self) -> bool:
        """Whether most of what is kept ended within it."""
        return self.kept is not None and self.length * 2 >= self.kept


WITHIN: LiteralString = """(
        select count(*) filter (where status = 'Succeeded') as succeeded,
               count(*) filter (where status in ('Failed', 'PartiallyFailed')) as failed
        from run
        where tenant = %(tenant)s and workflow_id = part.id
          and completed_at >= now() - %(window)s::interval
    )"""
# All that ended, which an index of few pages counts in half the time, less what is too old. A count
# is named once: Postgres would count for each mention of it.
ALL_BUT_OLDER: LiteralString = """(
        select whole.succeeded - older.succeeded as succeeded,
               whole.failed - older.failed as failed
        from (select (select count(*) from run
                      where tenant = %(tenant)s and workflow_id = part.id
                        and status = 'Succeeded' and completed_at is not null) as succeeded,
                     (select count(*) from run
                      where tenant = %(tenant)s and workflow_id = part.id
                        and status in ('Failed', 'PartiallyFailed')
                        and completed_at is not null) as failed) as whole,
             (select count(*) filter (where status = 'Succeeded') as succeeded,
                     count(*) filter (where status in ('Failed', 'PartiallyFailed')) as failed
              from run
              where tenant = %(tenant)s and workflow_id = part.id
                and completed_at < now() - %(window)s::interval) as older
    )"""
# As the trigger of the migration 0024 reads them.
UNNOTED: LiteralString = """
    from (select jsonb_path_query(actions, '$[*].duration_ms ? (@ >= 0 && @ <= 2147483647)') as ms
          from run as whole where whole.tenant = %(tenant)s and whole.id = run.id) as timed
"""
# Indexes hold all that is counted, and what the newest runs spent: only the rows of the last ends
# are read, and those of runs that ended before what they spent was noted. With the documents of the
# newest 200 runs of each of 100 workflows, of a million, it took 123 ms, and now 71.
PAGE = """
    select total.count as total, part.id, part.name, part.enabled, last.runs as last,
           counted.succeeded, counted.failed, newest.duration_ms
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
    left join lateral /* counted */ as counted on true
    left join lateral (
        select sum(one.spent_ms)::float / nullif(sum(one.timed_actions), 0) as duration_ms
        from (select coalesce(spent_ms, (select sum(ms::text::numeric) /* unnoted */)) as spent_ms,
                     coalesce(timed_actions, (select count(*) /* unnoted */)) as timed_actions
              from run
              where tenant = %(tenant)s and workflow_id = part.id
                and completed_at >= now() - %(window)s::interval
              order by completed_at desc, id
              limit 200) as one
    ) as newest on true
    order by part.name, part.id
""".replace("/* counted */", WITHIN).replace("/* unnoted */", UNNOTED)
PAGE_OF_MOST = PAGE.replace(WITHIN, ALL_BUT_OLDER)


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and how long all of it is."""

    items: list[Health]
    total: int


async def page(conn: Connection, tenant: str, window: Window, span: Span) -> Page:
    """Workflows by name, then id, with what they did within the window.

    Planned for this window, of which a plan for any would expect a third of all runs.
    """
    statement = PAGE_OF_MOST if window.holds_most else PAGE
    wanted = {"tenant": tenant, "window": window.length, **span.values}
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, wanted, prepare=False)
        rows = await cursor.fetchall()
    found = [
        msgspec.convert(row | {"last": msgspec.json.decode(row["last"])}, Health)
        for row in rows
        if row["id"] is not None
    ]
    return Page(found, rows[0]["total"])
