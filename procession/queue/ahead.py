"""What an idle worker looks out for: the next run that falls due, and tasks of maintenance."""

from procession.queue.hops import HOPS
from procession.queue.pool import Connection

MAINTENANCE = "maintenance"  # the queue of the tasks that are no attempts

MAINTENANCE_WAITS = """
    select exists (
        select from procrastinate_jobs
        where queue_name = 'maintenance' and status = 'todo'
          and (scheduled_at is null or scheduled_at <= now()))
"""


async def maintenance_waits(conn: Connection) -> bool:
    """Whether there is a task to fetch. The stock fetch looks through every job that waits."""
    cursor = await conn.execute(MAINTENANCE_WAITS)
    row = await cursor.fetchone()
    return row is not None and row[0]


# The head of each tenant's future, by the same hops as a claim's.
NEXT_DUE = """
    with recursive /* hops */
    select extract(epoch from min(head.due_at) - clock_timestamp())::float8
    from turn cross join lateral (
        select run.due_at from run
        where run.tenant = turn.tenant and run.due_at > now() and run.due_at < 'infinity'
        order by run.due_at limit 1
    ) as head
""".replace("/* hops */", HOPS)


async def seconds_to_next(conn: Connection) -> float | None:
    """How long until a run falls due; None when none will."""
    cursor = await conn.execute(NEXT_DUE)
    row = await cursor.fetchone()
    return None if row is None else row[0]
