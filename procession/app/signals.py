"""Being asked to stop: politely the first time, at once the second. The last line says why."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from procession.app.interrupt import stops

log = logging.getLogger(__name__)

# Seconds after the grace: 10 for what does not end when it is cancelled, and some for the end.
LONGER = 15
LAST_WORD = 1  # second for the last line, if nobody reads what is logged


@contextmanager
def on_stop(first: Callable[[], None], second: Callable[[], None], grace: float) -> Generator[None]:
    """Call `first` when a stop is asked for, and `second` when it is asked for again.

    Or when the process goes on long after its grace: a database that stands still lets nobody go.
    """
    loop, by = asyncio.get_running_loop(), list[str]()

    def ask(number: signal.Signals) -> None:
        by.append(number.name)
        if len(by) > 1:
            end(f"a second signal, {number.name}")
            return
        after(grace + LONGER, lambda: end(f"{number.name} came {grace + LONGER:g} s ago"))
        first()

    def end(why: str) -> None:
        after(LAST_WORD, second)
        log.warning("Ended at once, with what was in flight left to others: %s", why)
        second()

    before = {one: signal.getsignal(one) for one in stops()}
    for one in before:
        loop.add_signal_handler(one, ask, one)
    try:
        yield
        if by:
            log.info("Stopped, as %s asked", by[0])
    finally:
        for one, handler in before.items():
            loop.remove_signal_handler(one)
            signal.signal(one, handler)


def after(seconds: float, call: Callable[[], None]) -> None:
    """Call it then, whatever the loop and the other threads are at; no exit waits for it."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def at_once() -> None:
    """End without ceremony. What is in flight loses its lease, and is rescued."""
    os._exit(1)
