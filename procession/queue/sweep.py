"""Removing what was kept long enough: a little at a time, by one worker at a time.

A batch is a transaction of its own, the oldest rows first, over all tenants.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from procession.queue.pool import Connection, Pool

BATCH = 500  # rows of a transaction
BATCHES = 20  # of one kind in one sweep; the rest waits for the next
EVERY = timedelta(hours=1)
LOCK_SPACE = 0x50525357  # "PRSW": told apart by the schema's hash

TRY_LOCK = "select pg_try_advisory_lock(%(space)s, hashtext(current_schema()))"
UNLOCK = "select pg_advisory_unlock(%(space)s, hashtext(current_schema()))"

# The last begin is kept, so that a worker that starts anew does not begin before its time.
BEGIN = """
    insert into sweep (name, begun_at) values (%(name)s, clock_timestamp())
    on conflict (name) do update set begun_at = excluded.begun_at
    where sweep.begun_at <= excluded.begun_at - %(every)s::interval
"""


@asynccontextmanager
async def alone(pool: Pool, name: str = "retention") -> AsyncGenerator[Connection | None]:
    """A connection to sweep with; None while another worker sweeps, or has begun lately."""
    async with pool.connection() as conn:
        cursor = await conn.execute(TRY_LOCK, {"space": LOCK_SPACE})
        row = await cursor.fetchone()
        if row is None or not row[0]:
            yield None
            return
        try:
            begun = await conn.execute(BEGIN, {"name": name, "every": EVERY})
            yield conn if begun.rowcount else None
        finally:
            if not conn.closed:  # or the lock went with it
                await conn.execute(UNLOCK, {"space": LOCK_SPACE})


# By where the rows lie, which is certain while they are locked: a join might be turned around.
# now() and not clock_timestamp(): no index is walked by what may differ from row to row.
CLEAR_BODIES = """
    update delivery set response_body = null, response_body_cleared_at = clock_timestamp()
    where ctid = any (array(
        select ctid from delivery
        where response_body is not null and created_at < now() - %(older)s::interval
        order by created_at
        limit %(batch)s
        for update skip locked))
"""
REMOVE_DELIVERIES = """
    delete from delivery
    where ctid = any (array(
        select ctid from delivery
        where created_at < now() - %(older)s::interval
        order by created_at
        limit %(batch)s
        for update skip locked))
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """How long what is kept; None for ever."""

    bodies: timedelta = timedelta(hours=24)
    deliveries: timedelta | None = timedelta(days=30)


@dataclass(slots=True)
class Swept:
    """How many rows a sweep has dealt with."""

    bodies: int = 0
    deliveries: int = 0


async def sweep(conn: Connection, windows: Windows, swept: Swept) -> None:
    """Clear and remove what is older than its window. The counts stand however it ends."""
    for _ in range(BATCHES):
        cursor = await conn.execute(CLEAR_BODIES, _batch(windows.bodies))
        swept.bodies += cursor.rowcount
        if cursor.rowcount < BATCH:
            break
    if windows.deliveries is None:
        return
    for _ in range(BATCHES):
        cursor = await conn.execute(REMOVE_DELIVERIES, _batch(windows.deliveries))
        swept.deliveries += cursor.rowcount
        if cursor.rowcount < BATCH:
            break


def _batch(older: timedelta) -> dict[str, object]:
    return {"older": older, "batch": BATCH}
