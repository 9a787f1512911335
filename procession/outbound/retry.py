"""Tries inside one attempt: what is sent again, and after how long.

Only what may pass soon, or what the receiver asks for: the durable queue waits the long waits.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from tenacity import AsyncRetrying, RetryCallState, stop_after_attempt

from procession.outbound.faults import (
    ConnectionFailed,
    ConnectionLost,
    Fault,
    NameNotResolved,
    Timeout,
)

UNSENT = (NameNotResolved, ConnectionFailed)
IN_DOUBT = (Timeout, ConnectionLost)
BUSY = frozenset({408, 429, 503})
BEHIND = frozenset({502, 504})  # a gateway's word: the request may have gone through
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
REPLAYED = 1_048_576  # bytes; a longer body is sent once

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Tries:
    """How often and how patiently a call is tried."""

    retries: int = 2
    each: timedelta = timedelta(seconds=10)  # from the look-up of the name to the headers
    floor: timedelta = timedelta(milliseconds=200)
    ceiling: timedelta = timedelta(seconds=2)
    longest_retry_after: timedelta = timedelta(seconds=5)


class Jitter:
    """Waits between tries: each up to three times the one before, by chance, within bounds."""

    def __init__(self, tries: Tries) -> None:
        self._floor, self._ceiling = tries.floor.total_seconds(), tries.ceiling.total_seconds()
        self._wait = self._floor

    def next(self) -> float:
        self._wait = min(random.uniform(self._floor, 3 * self._wait), self._ceiling)
        return self._wait


class Reply(Protocol):
    """An answer whose headers have come."""

    @property
    def status(self) -> int: ...
    @property
    def retry_after(self) -> timedelta | None: ...
    async def aclose(self) -> None: ...


R = TypeVar("R", bound=Reply)


class Retries(Generic[R]):
    """The tries of one call."""

    def __init__(
        self, tries: Tries, *, resend: bool, replay: bool, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._tries = tries
        self._resend = resend  # a request that may have arrived may be sent once more
        self._most = 1 + tries.retries if replay else 1
        self._sleep = sleep
        self._jitter = Jitter(tries)
        self.made = 0

    async def send(self, once: Callable[[], Awaitable[R]]) -> R:
        """The last answer; raises the last fault when there is none."""
        first = await self._try(once)
        if not self._worth(first):
            return _given(first)
        return await self._more(once, first)

    async def _more(self, once: Callable[[], Awaitable[R]], first: R | Fault) -> R:
        """What tenacity makes of a first try that did not do. Most calls never come here."""
        made = [first]

        async def said() -> R:
            return _given(made.pop() if made else await self._try(once))

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._most),
            retry=lambda state: self._worth(_said(state)),
            wait=self._pause,
            before_sleep=self._dismiss,
            sleep=self._sleep,
            retry_error_callback=_last,
        )
        return await retrying(said)

    async def _try(self, once: Callable[[], Awaitable[R]]) -> R | Fault:
        self.made += 1
        try:
            return await once()
        except Fault as fault:
            return fault

    def _worth(self, said: Reply | BaseException) -> bool:
        """Whether another try may be answered better."""
        if isinstance(said, BaseException):
            return isinstance(said, UNSENT) or (self._resend and isinstance(said, IN_DOUBT))
        if said.retry_after is not None and said.retry_after > self._tries.longest_retry_after:
            return False
        return said.status in BUSY or (self._resend and said.status in BEHIND)

    def _pause(self, state: RetryCallState) -> float:
        """The jitter, after what the receiver asked for."""
        wait, said = self._jitter.next(), _said(state)
        asked = None if isinstance(said, BaseException) else said.retry_after
        return wait + (asked.total_seconds() if asked else 0)

    async def _dismiss(self, state: RetryCallState) -> None:
        said = _said(state)
        if not isinstance(said, BaseException):
            await said.aclose()


def _given(said: R | Fault) -> R:
    if isinstance(said, Fault):
        raise said
    return said


def _said(state: RetryCallState) -> Reply | BaseException:
    assert state.outcome is not None
    return state.outcome.exception() or state.outcome.result()


def _last(state: RetryCallState) -> object:
    assert state.outcome is not None
    return state.outcome.result()
