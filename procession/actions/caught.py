"""Calling the code of others: the one place where whatever it raises is taken for an answer."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def caught(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """What the code of others returned or raised; of that, Ctrl-C in the main thread goes on."""
    try:
        return work(), None
    except BaseException as error:
        is_main = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and is_main:
            raise
        return None, error
