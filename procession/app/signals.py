"""Being asked to stop: politely the first time, at once the second."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop(
    first: Callable[[], None], second: Callable[[], None], within: float | None = None
) -> Generator[None]:
    """Call `first` when a stop is asked for, and `second` when it is asked for again.

    Or when the process goes on after so many seconds: a database that stands still lets nobody go.
    """
    loop, asked = asyncio.get_running_loop(), 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        if asked == 1 and within is not None:
            timer = threading.Timer(within, second)
            timer.daemon = True
            timer.start()
        (first if asked == 1 else second)()

    for one in STOPS:
        loop.add_signal_handler(one, ask)
    try:
        yield
    finally:
        for one in STOPS:
            loop.remove_signal_handler(one)


def at_once() -> None:
    """End without ceremony. What is in flight loses its lease, and is rescued."""
    os._exit(1)
