"""Claims that take too long: what of them is kept, and which runs are left out of the next ones."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
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
LEFT = 120.0  # seconds until larger ones are tried again
MOMENT = 1.0  # seconds; the longest that a claim should take
SHARE = 4  # times what a slow one took, the large ones are left: they have a fifth of the time
READING = 0.1  # seconds for an answer that has come, though nobody could read it
CANCEL = 2.0  # seconds for Postgres to end a statement that is given up


@dataclass(frozen=True, slots=True)
class Ask:
    """How many runs a claim asks for, and the largest of their documents."""

    count: int
    largest: int
    is_light: bool


class Pace:
    """What this worker asks for, by how long it takes to be claimed.

    Large documents are claimed few at a time, and in between only small ones, while there are any:
    they would wait for each of the large ones otherwise, with slots that are free.

    Of some a single one takes too long. Its run would be the first of the next claim as well, and
    no other be claimed any more.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._most = {False: slots, True: slots}  # at once, by whether only small ones are claimed
        self._light_until = 0.0
        self._step = 0
        self._step_until = 0.0

    def ask(self, slots: int) -> Ask:
        """What to ask for, with so many slots."""
        is_light = monotonic() < self._light_until
        largest = BOUNDS[-1] if is_light else self._bound()
        return Ask(max(1, min(slots, self._most[is_light])), largest, is_light)

    def _bound(self) -> int:
        if self._step and monotonic() >= self._step_until:
            self._step -= 1
            self._step_until = monotonic() + LEFT
        return BOUNDS[self._step]

    def took(self, ask: Ask, seconds: float, *, found: bool) -> None:
        """It was claimed, or there was nothing to claim."""
        if ask.is_light and not found:
            self._light_until = 0.0  # the large ones keep nobody waiting
        if seconds > MOMENT:
            self._slow(ask, seconds, ask.count // 2)
        else:
            most = max(self._most[ask.is_light], ask.count * 2)
            self._most[ask.is_light] = min(self._slots, most)

    def gave_up(self, ask: Ask, seconds: float, *, was_hurried: bool) -> None:
        """It took too long, or longer than there was time for."""
        self._slow(ask, seconds, ask.count // 4)
        if ask.count > 1 or ask.is_light or was_hurried:
            return
        self._step = min(self._step + 1, len(BOUNDS) - 1)
        self._step_until = monotonic() + LEFT
        log.warning(
            "One run took a claim too long: for %g s those that keep more than %d bytes are left",
            LEFT,
            BOUNDS[self._step],
        )

    def _slow(self, ask: Ask, seconds: float, most: int) -> None:
        self._most[ask.is_light] = max(1, most)
        if not ask.is_light:
            self._light_until = monotonic() + SHARE * seconds


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
