"""The hourly sweep: asked for every minute, begun once in an hour, on one of all workers.

A worker that has just started waits first, so that a row of restarts sweeps nothing twice and
nothing begins beside the burst of work that a start is.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import cast

from procrastinate import JobContext

from procession.queue.outage import FAULTS
from procession.queue.pool import Pool
from procession.queue.removal import Windows
from procession.queue.sweep import Swept, alone, sweep

log = logging.getLogger(__name__)

RETENTION = "retention"  # the task, and the sweeper's name in the context Procrastinate hands on
CRON = "* * * * *"  # with a tick an hour, a begin a moment after one would miss the next
FIRST_WAIT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeper:
    """What the sweeps of this process need."""

    pool: Pool
    windows: Windows = field(default_factory=Windows)
    limit: timedelta = timedelta(seconds=600)  # of one sweep; the next one goes on
    started: float = field(default_factory=monotonic)

    @property
    def is_fresh(self) -> bool:
        return monotonic() - self.started < FIRST_WAIT.total_seconds()


async def retention(context: JobContext, timestamp: int) -> None:  # noqa: ARG001  of a periodic task
    """Sweep, if it is time to."""
    sweeper = cast("Sweeper", context.additional_context[RETENTION])  # pyright: ignore[reportUnknownMemberType]  a bare dict there
    if not sweeper.is_fresh:
        await swept(sweeper)


async def swept(sweeper: Sweeper) -> Swept | None:
    """What a sweep did; None where none was begun. One that fails is gone on with an hour later."""
    counts: Swept | None = None
    try:
        async with asyncio.timeout(sweeper.limit.total_seconds()), alone(sweeper.pool) as conn:
            if conn is not None:
                counts = Swept()
                await sweep(conn, sweeper.windows.removals, counts)
    except (*FAULTS, TimeoutError) as error:
        log.warning("The sweep ended early: %s", type(error).__name__)
    except asyncio.CancelledError:
        log.info("The sweep was stopped")
        raise
    finally:
        if counts is not None:
            log.info("Swept: %s", counts)
    return counts
