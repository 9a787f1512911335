"""Measuring the backlog: asked for at each tick, begun when its time has come, on one worker.

A scrape measures nothing. What fails is tried again at the next tick that may, and is not told of
each time: the age of the last measurement, which every worker shows, tells it.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import cast

from procrastinate import JobContext

from procession.queue.backlog import begin, measure
from procession.queue.outage import FAULTS
from procession.queue.pool import Pool

log = logging.getLogger(__name__)

BACKLOG = "backlog"  # the task, and the measurer's name in the context Procrastinate hands on
LIMIT = timedelta(seconds=10)  # of a measurement, which the server keeps
LONGER = timedelta(seconds=2)  # for a server that keeps nothing
MINUTE = timedelta(minutes=1)
WARNED_EVERY = 300.0  # seconds, while it goes on failing


@dataclass(slots=True, kw_only=True)
class Measurer:
    """What the measurements of this process need."""

    pool: Pool
    types: tuple[str, ...]  # that it serves
    every: timedelta | None = timedelta(seconds=30)  # None: this process does not measure
    limit: timedelta = LIMIT
    _warned_at: float | None = field(default=None, init=False)  # None: the last one went well

    @property
    def ticks(self) -> str:
        """When to look whether it is time: often, where a minute late would be much."""
        return "* * * * *" if self.every and self.every > MINUTE else "* * * * * */5"

    async def look(self) -> None:
        """Measure, if it is time to."""
        if self.every is None:
            return
        try:
            longest = (self.limit + LONGER).total_seconds()
            async with asyncio.timeout(longest), self.pool.connection() as conn:
                if not await begin(conn, self.every):
                    return
                await measure(conn, self.types, self.limit)
        except (*FAULTS, TimeoutError) as error:
            self._warn(error)
        else:
            self._warned_at = None

    def _warn(self, error: Exception) -> None:
        now = monotonic()
        if self._warned_at is None or now - self._warned_at >= WARNED_EVERY:
            self._warned_at = now
            log.warning("The backlog cannot be measured: %s", type(error).__name__)


async def backlog(context: JobContext, timestamp: int) -> None:  # noqa: ARG001  of a periodic task
    """Measure, if it is time to."""
    await cast("Measurer", context.additional_context[BACKLOG]).look()  # pyright: ignore[reportUnknownMemberType]  a bare dict there
