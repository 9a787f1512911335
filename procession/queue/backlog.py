"""How much waits, over all tenants: measured by one worker now and then, and kept for all of them.

What counts as due is what the next claim of the measuring worker could take, but that the type is
the one that was next when the run was last written. The reading is one walk along the index of due
runs and one along that of leases, and has a time of its own.
"""

from datetime import timedelta

from psycopg.rows import class_row

from procession.engine.run import DOCUMENT_FORMAT
from procession.queue.hops import HOPS
from procession.queue.leases import SyncConnection
from procession.queue.pool import Connection
from procession.queue.types import Backlog

# The begin is kept, whatever comes of it: a measurement that is stopped is not begun at every tick.
BEGIN_MEASURING = """
    insert into backlog (begun_at) values (clock_timestamp())
    on conflict (is_only) do update set begun_at = excluded.begun_at
    where backlog.begun_at <= excluded.begun_at - %(every)s::interval
"""
STOPPED_AFTER = """
    select set_config('statement_timeout', %(milliseconds)s, true)
"""

# The hops of a claim, from tenant to tenant, and along each one's due runs. The workflows are
# looked at once for each of them, not for each run. Nor is each run walked for an action whose wait
# has ended since: that was measured, and takes up to five times as long where many have waited.
MEASURE = """
    with recursive /* hops */, by_workflow as materialized (
        select turn.tenant, due.workflow_id, count(*) as runs,
               min(due.created_at) filter (where isfinite(due.created_at)) as oldest
        from turn cross join lateral (
            select run.workflow_id, run.created_at from run
            where run.tenant = turn.tenant and run.due_at is not null and run.due_at <= now()
              and run.executor is null and run.document_format <= %(format)s
              and run.due_type = any(%(types)s)
        ) as due
        group by turn.tenant, due.workflow_id
    ), due as materialized (
        select coalesce(sum(runs), 0) as runs, min(oldest) as oldest from by_workflow
        where (select enabled from workflow
               where workflow.tenant = by_workflow.tenant
                 and workflow.id = by_workflow.workflow_id)
    ), lapsed as materialized (
        select count(*) as leases,
               min(lease_until) filter (where isfinite(lease_until)) as oldest from run
        where lease_token is not null and lease_until < now()
    )
    update backlog
    set measured_at = now(), due_runs = due.runs, lapsed_leases = lapsed.leases,
        oldest_due_age = coalesce(extract(epoch from now() - due.oldest), 0),
        oldest_lapsed_age = coalesce(extract(epoch from now() - lapsed.oldest), 0)
    from due, lapsed
    where backlog.is_only
""".replace("/* hops */", HOPS)
MEASURED = """
    select measured_at, due_runs, oldest_due_age, lapsed_leases, oldest_lapsed_age
    from backlog where measured_at is not null
"""


async def begin(conn: Connection, every: timedelta) -> bool:
    """Whether it is time to measure again; whoever is told so does it."""
    return bool((await conn.execute(BEGIN_MEASURING, {"every": every})).rowcount)


async def measure(conn: Connection, types: tuple[str, ...], limit: timedelta) -> None:
    """Measure, and keep what was found; stopped by the server after so long."""
    async with conn.transaction():
        milliseconds = str(round(limit.total_seconds() * 1000))
        await conn.execute(STOPPED_AFTER, {"milliseconds": milliseconds})
        await conn.execute(MEASURE, {"types": list(types), "format": DOCUMENT_FORMAT})


def measured(conn: SyncConnection) -> Backlog | None:
    """What was measured last; None before the first time."""
    with conn.cursor(row_factory=class_row(Backlog)) as cursor:
        return cursor.execute(MEASURED).fetchone()
