"""Claims that take too long: what of them is kept, and which runs are left out of the next ones."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any

from psycopg.errors import QueryCanceled

from procession.queue.outage import FAULTS
from procession.queue.pool import Connection
from procession.queue.types import Claim

log = logging.getLogger(__name__)

# Bytes of a document as it is stored, which are a ninetieth of its own at the least: text that says
# the same again and again. The last of them is claimed in a second, whatever it holds.
BOUNDS = (2_147_483_647, 8_000_000, 1_000_000, 125_000)
LEFT = 30.0  # seconds until larger ones are tried again
READING = 0.1  # seconds for an answer that has come, though nobody could read it
CANCEL = 2.0  # seconds for Postgres to end a statement that is given up


class Bound:
    """The largest documents that this worker claims.

    There are those of which a single one takes a claim too long. Without a bound its run would be
    the first of the next claim as well, and no run of any tenant would be claimed any more.
    """

    def __init__(self) -> None:
        self._step = 0
        self._until = 0.0

    @property
    def now(self) -> int:
        """The bound, which gives way by and by."""
        if self._step and monotonic() >= self._until:
            self._step -= 1
            self._until = monotonic() + LEFT
        return BOUNDS[self._step]

    def lower(self) -> None:
        """One alone took too long."""
        self._step = min(self._step + 1, len(BOUNDS) - 1)
        self._until = monotonic() + LEFT
        log.warning(
            "One run took a claim too long: for %g s those that keep more than %d bytes are left",
            LEFT,
            BOUNDS[self._step],
        )


async def in_time(
    conn: Connection, claiming: Coroutine[Any, Any, list[Claim]], within: float
) -> list[Claim]:
    """What was claimed; raises TimeoutError when the statement was ended before it claimed any.

    What has been leased by then is not thrown away. It may be the answer that was not read in time,
    since an action held up the loop, and what may not be repeated would be Unknown for nothing.
    """
    task = asyncio.create_task(claiming)
    try:
        for seconds in (within, READING):
            if (await asyncio.wait({task}, timeout=seconds))[0]:
                return await task
        with suppress(*FAULTS):
            await conn.cancel_safe(timeout=CANCEL)
        if (await asyncio.wait({task}, timeout=CANCEL))[0]:
            return await task
    except QueryCanceled:
        raise TimeoutError from None
    finally:
        if not task.done():  # the server does not answer, or the worker breaks off
            task.cancel()
            await asyncio.wait({task})
    raise TimeoutError
