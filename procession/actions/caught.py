"""Calling the code of others: the one place where whatever it raises is taken for an answer."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def caught(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    """What the code of others returned or raised."""
    try:
        return work(), None
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001  the one place
        return None, error
