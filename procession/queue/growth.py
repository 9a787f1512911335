"""Tables that have grown since Postgres last looked at them: it is made to look again.

It plans a statement by what it has seen of the tables, and keeps to the plan until it sees more. On
tables that held a row or two when it looked, the plan is to read all of them. Autovacuum comes by
each minute; by then a burst of 100,000 runs has been claimed at 20 in 3 s. To plan anew is of no
help before it has looked: what was in the one row counts as rare. So workers have it look when a
table has four times the rows that it knows of, which is so a few times in the life of a database.
"""

import asyncio
import logging

from psycopg import sql

from procession.queue.outage import FAULTS
from procession.queue.pool import Connection, Pool

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between two looks of a worker
AFTER_AN_ERROR = 60.0  # as one is when a look takes as long as a statement may

# The rows as they are counted while they are written. Only an owner may have a table looked at.
GROWN = """
    select counted.schemaname, counted.relname
    from pg_stat_user_tables as counted join pg_class on pg_class.oid = counted.relid
    where counted.schemaname = current_schema()
      and counted.relname = any(array['run', 'procrastinate_jobs', 'attempt', 'delivery', 'entry'])
      and n_live_tup > 4 * greatest(reltuples, 250) and pg_has_role(relowner, 'usage')
    order by counted.relname
"""
LOOK = sql.SQL("analyze (skip_locked) {}")  # where another worker looks already


async def look(conn: Connection) -> list[str]:
    """Have Postgres look at what has grown; the names of those tables."""
    grown = await (await conn.execute(GROWN)).fetchall()
    for names in grown:
        await conn.execute(LOOK.format(sql.Identifier(*names)))
    return [name for _, name in grown]


async def look_on(pool: Pool) -> None:
    """Look again and again, until cancelled."""
    while True:
        pause = EVERY
        try:
            async with pool.connection() as conn:
                if grown := await look(conn):
                    log.info("Postgres has looked at what has grown: %s", ", ".join(grown))
        except FAULTS as error:
            log.warning("Postgres cannot look at what has grown: %s", type(error).__name__)
            pause = AFTER_AN_ERROR
        await asyncio.sleep(pause)
