"""Postgres at the start of a process: waited for while it is away, and checked for its schema."""

import asyncio
import logging
import time

from procession.queue.pool import Database
from procession.queue.reach import check_schema, out_of_reach

log = logging.getLogger(__name__)

PAUSE = 2.0  # seconds between two looks


class AwayError(Exception):
    """Postgres has not answered for as long as it was waited for."""


async def arrive(database: Database, patience: float = float("inf")) -> None:
    """Return once Postgres answers; look again as long as it does not."""
    end = time.monotonic() + patience
    while why := await out_of_reach(database):
        if time.monotonic() >= end:
            raise AwayError(f"Postgres has not answered for {patience:g} s: {why}")
        log.warning("Postgres does not answer (%s). Trying again in %g s.", why, PAUSE)
        await asyncio.sleep(PAUSE)


async def arrive_and_check(database: Database) -> None:
    """The same, and then see to it that this release can work on the schema that is there."""
    await arrive(database)
    await check_schema(database)
