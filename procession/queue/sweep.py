"""Removing what was kept long enough: a little at a time, by one worker at a time.

A batch is a transaction of its own, the oldest rows first, over all tenants. What `removal` says
goes, class by class; here is when, how much of it, and who is told.

Each tenant has one audit entry of a sweep, written when it ends. What is to be in it is kept by
each batch beside what it takes, so that nothing that is gone is told of nowhere.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from psycopg.errors import QueryCanceled

from procession.queue.pool import Connection, Pool
from procession.queue.removal import Removal

log = logging.getLogger(__name__)

BATCH = 500  # rows of a transaction
BATCHES = 20  # of one class in one sweep; the rest waits for the next
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

# A batch that takes longer is made again with half of it, so that nothing is held for long. Rows
# that somebody else has locked are passed over; who holds a whole table has his time.
OWN_PACE = "set statement_timeout = '1s'; set lock_timeout = '1s'"
# One row by itself is in nobody's way for longer. It is for versions: before one goes, the foreign
# key looks through all runs of its workflow, which takes 0.7 s for a million of them. An index for
# that would be one more that every write of a run has to write.
PACE_ALONE = "set statement_timeout = '10s'"
PACE_OF_THE_POOL = "reset statement_timeout; reset lock_timeout"

# In the transaction of the batch, whose rows are those that `removed` stands for.
COUNTED = """, counted as (
        insert into swept (tenant, class, rows)
        select tenant, %(class)s, count(*) from removed where tenant <> '' group by tenant
        on conflict (tenant, class) do update set rows = swept.rows + excluded.rows
    )
    select tenant from removed
"""

TELL = """
    with told as (delete from swept returning tenant, class, rows)
    insert into audit (tenant, id, action, target_type, target_id, metadata)
    select tenant, gen_random_uuid(), 'retention.swept', 'Tenant', tenant,
           jsonb_object_agg(class, rows)
    from told group by tenant
"""


@asynccontextmanager
async def alone(
    pool: Pool, name: str = "retention", *, every: timedelta = EVERY
) -> AsyncGenerator[Connection | None]:
    """A connection to sweep with; None while somebody else sweeps, or has begun lately.

    What was swept is told when it is left, however that is; what nobody has told yet, now.
    """
    async with pool.connection() as conn:
        cursor = await conn.execute(TRY_LOCK, {"space": LOCK_SPACE})
        row = await cursor.fetchone()
        if row is None or not row[0]:
            yield None
            return
        try:
            await conn.execute(TELL)
            begun = await conn.execute(BEGIN, {"name": name, "every": every})
            if begun.rowcount:
                await conn.execute(OWN_PACE)
            yield conn if begun.rowcount else None
        finally:
            if not conn.closed:  # or the lock went with it
                await conn.execute(PACE_OF_THE_POOL)
                await conn.execute(TELL)
                await conn.execute(UNLOCK, {"space": LOCK_SPACE})


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows a sweep has dealt with, by class."""

    total: Counter[str] = field(default_factory=Counter[str])

    def __str__(self) -> str:
        return ", ".join(f"{name} {rows}" for name, rows in self.total.items()) or "nothing"


async def sweep(
    conn: Connection, removals: Sequence[Removal], swept: Swept, *, to_the_end: bool = False
) -> None:
    """Clear and remove what is older than its window. The counts stand however it ends."""
    for one in removals:
        whole = to_the_end or one.to_the_end
        if await _work_through(conn, one, swept, count() if whole else range(BATCHES)) < BATCH:
            await conn.execute(OWN_PACE)


async def _work_through(
    conn: Connection, one: Removal, swept: Swept, batches: Iterable[int]
) -> int:
    """How many rows it took at a time in the end."""
    batch, statement = BATCH, f"with removed (tenant) as ({one.statement}){COUNTED}"
    for _ in batches:
        try:
            wanted = {"older": one.older, "batch": batch, "class": one.name}
            taken = (await conn.execute(statement, wanted)).rowcount
        except QueryCanceled:
            if batch == 1:
                log.warning("One of the %s takes the sweep too long, and stays", one.name)
                break
            batch //= 2
            if batch == 1:
                await conn.execute(PACE_ALONE)
            continue
        if taken:
            swept.total[one.name] += taken
        if taken < batch:
            break
    return batch
