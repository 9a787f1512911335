"""Work that would hold up the loop, and with it the renewals and calls of everybody else.

Each has a thread of its own and not one of the loop's few, which names are looked up in. It is a
daemon: one that hangs holds up no exit. It cannot be cancelled, but may ask whether anybody waits.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TypeVar, cast

from procession.actions.caught import caught
from procession.engine.entry import Entry, Stub

T = TypeVar("T")

LIGHT = 16_384  # characters of templates, or of what they may read, that take no time to speak of


_left: ContextVar[threading.Event | None] = ContextVar("left", default=None)


class LeftError(Exception):
    """Nobody waits any more for what this would give."""


def go_on() -> None:
    """Raise once whoever waited for this thread was cancelled."""
    left = _left.get()
    if left is not None and left.is_set():
        raise LeftError


async def in_thread(work: Callable[[], T]) -> T:
    """What a blocking function returns or raises."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
    context, left = copy_context(), threading.Event()
    context.run(_left.set, left)

    def run() -> None:
        said = caught(lambda: context.run(work))
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell, said)

    def tell(said: tuple[T | None, BaseException | None]) -> None:
        if not ended.done():  # it was left behind
            ended.set_result(said)

    threading.Thread(target=run, name="action", daemon=True).start()
    try:
        result, error = await ended
    except asyncio.CancelledError:
        left.set()
        raise
    if error is not None:
        raise error
    return cast("T", result)


async def filled(work: Callable[[], T], written: int, entry: Entry | Stub) -> T:
    """What filling in so many characters of templates about this entry gives."""
    if written == 0 or (written <= LIGHT and _size(entry) <= LIGHT):
        return work()
    return await in_thread(work)


def _size(entry: Entry | Stub) -> int:
    """About how much a template may read of it."""
    values = entry.data.values() if isinstance(entry, Entry) else ()
    return sum(len(one) for one in values if isinstance(one, str | list | dict))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  of JSON
