"""Ctrl-C while a command is being imported, which takes a second or two.

Nothing has begun that could be left behind, and an exception would come out of whatever module is
half read. So the process ends then and there, with the status that a shell expects.
"""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def ended_at_once() -> Generator[None]:
    """While this lasts Ctrl-C ends the process, unless somebody else takes care of it."""
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_: int, __: object) -> None:
    os._exit(INTERRUPTED)
