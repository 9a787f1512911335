"""Who has had locks on runs for so long that it may be in the way of a rescue.

Which rows a session has locked is written in the rows alone. That it has locked some of a table is
seen, and of ours none does so for as long as a lease lasts.
"""

from dataclasses import dataclass

from psycopg.rows import class_row

from procession.queue.leases import LEASE
from procession.queue.pool import Connection

LONG = LEASE  # in a transaction

HOLDERS = """
    select session.pid, coalesce(nullif(session.application_name, ''), 'no name') as name,
           coalesce(session.state, 'not ours to see') as state,
           extract(epoch from now() - session.xact_start)::float8 as seconds
    from pg_stat_activity as session
    where session.datname = current_database() and session.pid <> pg_backend_pid()
      and session.xact_start < now() - %(long)s::interval
      and exists (select from pg_locks as held
                  where held.pid = session.pid and held.granted
                    and held.relation = 'run'::regclass
                    and held.mode not in ('AccessShareLock', 'ShareUpdateExclusiveLock'))
    order by session.xact_start
    limit 5
"""


@dataclass(frozen=True, slots=True)
class Holder:
    """A session in a transaction that has locked runs."""

    pid: int
    name: str  # of the application
    state: str
    seconds: float  # since the transaction began


async def holders(conn: Connection) -> list[Holder]:
    """The oldest of them."""
    async with conn.cursor(row_factory=class_row(Holder)) as cursor:
        return await (await cursor.execute(HOLDERS, {"long": LONG})).fetchall()
