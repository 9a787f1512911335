"""Verbs for many runs, a turn at a time, so that other tasks of maintenance have theirs between.

Whoever asks for one has a worker begin; from then on each turn calls the next. The tick of each
minute is for what a killed worker left behind.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from procrastinate import JobContext

from procession.queue.bulk import queue
from procession.queue.bulk_turn import TURN, turn, waits
from procession.queue.outage import FAULTS
from procession.queue.pool import Pool

log = logging.getLogger(__name__)

BULK = "bulk"  # the task, and the bulker's name in the context Procrastinate hands on
EACH_MINUTE = "* * * * *"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulker:
    """What the turns of this process need."""

    pool: Pool
    limit: timedelta = timedelta(seconds=600)  # of one turn
    turn: timedelta = TURN

    async def work(self) -> None:
        """Have one turn, and call the next if there is more to do."""
        try:
            async with (
                asyncio.timeout(self.limit.total_seconds()),
                self.pool.connection() as conn,
            ):
                dealt = await turn(conn, self.turn.total_seconds())
                if dealt is not None and await waits(conn):
                    await queue(conn)
        except (*FAULTS, TimeoutError) as error:
            log.warning("A verb for many runs stopped in between: %s", type(error).__name__)


async def bulk(context: JobContext, timestamp: int) -> None:  # noqa: ARG001  of a periodic task
    """Go on with what was asked for."""
    await cast("Bulker", context.additional_context[BULK]).work()  # pyright: ignore[reportUnknownMemberType]  a bare dict there
