"""What is still to be written when the database was away for it: tried until it is, in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from psycopg_pool import PoolClosed

from procession.queue.outage import OUTAGES
from procession.queue.pool import Connection, Pool

log = logging.getLogger(__name__)

Writing = Callable[[Connection], Awaitable[object]]
PAUSE = 1.0  # seconds between two tries
MOST = 10_000  # that wait; the oldest of more are given up


@dataclass(slots=True)
class Later:
    """One for the whole application. What waits is lost with its process."""

    waiting: deque[Writing] = field(default_factory=lambda: deque(maxlen=MOST))
    task: asyncio.Task[None] | None = None

    async def write(self, pool: Pool, writing: Writing) -> None:
        """Write it now, or else as soon as it can be."""
        try:
            async with pool.connection() as conn:
                await writing(conn)
        except OUTAGES:
            log.warning("An Idempotency-Key is settled later: the database was away")
            self.waiting.append(writing)
            if self.task is None or self.task.done():
                self.task = asyncio.create_task(self._go_on(pool))

    async def _go_on(self, pool: Pool) -> None:
        while self.waiting:
            await asyncio.sleep(PAUSE)
            try:
                async with pool.connection() as conn:
                    while self.waiting:
                        await self._next(conn)
            except PoolClosed:
                return
            except OUTAGES as error:
                log.debug("Not yet: %s", type(error).__name__)

    async def _next(self, conn: Connection) -> None:
        writing = self.waiting.popleft()
        try:
            await writing(conn)
        except OUTAGES:
            self.waiting.appendleft(writing)
            raise
