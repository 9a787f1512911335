"""A pool that hands out no connection of which it can be seen that the other end is gone.

Nothing comes on an idle connection but the news that the server has left it: a look at its socket
costs a hundredth of a round trip. Without it, one restart of Postgres would fail as many calls as
there are idle connections, long after the server is back.

A session keeps what the database was set to when it began: one that was refused a write ends, so
that the next one learns whether the database can be written to by now.
"""

import select
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool
from typing_extensions import override

from procession.queue.outage import OUTAGES

Connection = AsyncConnection[TupleRow]


class LivelyPool(AsyncConnectionPool[Connection]):
    """psycopg's pool, which looks at a connection before it gives it away."""

    @override
    async def getconn(self, timeout: float | None = None) -> Connection:
        while True:
            conn = await super().getconn(timeout)
            if not _has_news(conn):
                return conn
            try:
                await self.check_connection(conn)
            except OUTAGES:
                await self.putconn(conn)  # which drops what is closed, and makes another
            except BaseException:
                await self.putconn(conn)
                raise
            else:
                return conn

    @override
    @asynccontextmanager
    async def connection(self, timeout: float | None = None) -> AsyncGenerator[Connection]:
        async with super().connection(timeout) as conn:
            try:
                yield conn
            except ReadOnlySqlTransaction:
                await conn.close()
                raise


def _has_news(conn: Connection) -> bool:
    """Whether anything waits to be read, were it that nothing more will come."""
    looking = select.poll()
    try:
        looking.register(conn.fileno(), select.POLLIN)
    except OUTAGES:  # it is closed already
        return True
    return bool(looking.poll(0))
