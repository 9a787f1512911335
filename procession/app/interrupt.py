"""Being asked to stop before a process has taken that into its own hands.

While a command is imported, which takes a second or two, nothing has begun that could be left
behind, and an exception would come out of whatever module is half read: so the process ends then
and there, with the status that a shell expects. The first process of a container has to ask for
that: it is not sent what it has no handler for. This module is imported first, and imports little.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 128 + signal.SIGINT

Handler = Callable[[int, FrameType | None], object]


def stops() -> list[signal.Signals]:
    """What a process ends by: a hang-up is not among it where `nohup` has switched it off."""
    is_deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [one for one in STOPS if not (one is signal.SIGHUP and is_deaf)]


def end(number: int, _: FrameType | None) -> None:
    """As a handler: end then and there."""
    os._exit(128 + number)


@contextmanager
def ended_at_once() -> Generator[None]:
    """While this lasts a stop ends the process, unless somebody else takes care of it."""
    with _instead(dict.fromkeys(STOPS, end)):
        yield


@contextmanager
def ended_as_by_ctrl_c() -> Generator[None]:
    """While this lasts every stop is one by Ctrl-C: loops and drivers know how to clear up then.

    What is left is ended by a second one. The status tells which signal it was.
    """
    by: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if by:
            end(number, frame)
        by.append(number)
        ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(ctrl_c):  # it is switched off, as for what a shell runs beside itself
            raise KeyboardInterrupt
        ctrl_c(signal.SIGINT, frame)

    try:
        handlers: dict[signal.Signals, Handler] = dict.fromkeys(STOPS, ask)
        with _instead(handlers | {signal.SIGINT: signal.default_int_handler}):
            yield
    except KeyboardInterrupt:
        raise SystemExit(128 + by[0] if by else INTERRUPTED) from None


@contextmanager
def _instead(handlers: Mapping[signal.Signals, Handler]) -> Generator[None]:
    ours = (signal.SIG_DFL, signal.default_int_handler, end)
    is_main = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in handlers if is_main}
    taken = {one: handler for one, handler in before.items() if handler in ours}
    for one in taken:
        signal.signal(one, handlers[one])
    try:
        yield
    finally:
        for one, handler in taken.items():
            signal.signal(one, handler)
