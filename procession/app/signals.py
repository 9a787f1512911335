"""Being asked to stop: politely the first time, at once the second."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

STOPS = (signal.SIGINT, signal.SIGTERM)

# Seconds after the grace: 10 for what does not end when it is cancelled, and some for the end.
LONGER = 15


@contextmanager
def on_stop(first: Callable[[], None], second: Callable[[], None], grace: float) -> Generator[None]:
    """Call `first` when a stop is asked for, and `second` when it is asked for again.

    Or when the process goes on long after its grace: a database that stands still lets nobody go.
    """
    loop, asked = asyncio.get_running_loop(), 0

    def ask() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            after(grace + LONGER, second)
        (first if asked == 1 else second)()

    for one in STOPS:
        loop.add_signal_handler(one, ask)
    try:
        yield
    finally:
        for one in STOPS:
            loop.remove_signal_handler(one)


def after(seconds: float, call: Callable[[], None]) -> None:
    """Call it then, whatever the loop and the other threads are at; no exit waits for it."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def at_once() -> None:
    """End without ceremony. What is in flight loses its lease, and is rescued."""
    os._exit(1)
