"""How much of the pool the requests of one tenant may hold at once: half of it.

Requests that wait, for a row that somebody has locked or for a slow statement, hold a connection
each. Without a share, a few dozen of one tenant would be an outage of all the others.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from weakref import WeakValueDictionary

from psycopg_pool import PoolTimeout

from procession.queue.pool import Connection, Pool


class Shares:
    """Of the tenants of a process. A tenant without a request has none."""

    def __init__(self) -> None:
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def connection(self, pool: Pool, tenant: str) -> AsyncGenerator[Connection]:
        """A connection of the tenant's share. It is waited for no longer than for any other."""
        until = monotonic() + pool.timeout
        turn = self._turns.get(tenant)
        if turn is None:
            turn = self._turns[tenant] = asyncio.Semaphore(max(1, pool.max_size // 2))
        try:
            async with asyncio.timeout(pool.timeout):
                await turn.acquire()
        except TimeoutError:
            raise PoolTimeout("The tenant's share is in use.") from None
        try:
            async with pool.connection(max(0.001, until - monotonic())) as conn:
                yield conn
        finally:
            turn.release()
