"""The connections that are open, and those that are kept a moment for the next call.

A kept one was judged when it was made, and carries nothing but its owner's calls: a server that is
confused about where one of them ends takes the next for a part of it, or answers it amiss.
httpcore has a pool, which looks through all of its connections twice a call: with twenty calls in
flight that was a third of what a call cost.
"""

import asyncio
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

import httpcore2 as httpcore

from procession.outbound.guard import Guard, Target
from procession.outbound.resolve import Resolve
from procession.outbound.stream import connect

KEPT = 100
KEPT_SECONDS = 4.0  # below the five after which many servers close theirs


class Owner(NamedTuple):
    """Whose a connection is: a tenant's, and of that what the calls have in common."""

    tenant: str
    part: Hashable = None


Place = tuple[Owner, bytes, str, int]  # whose it is, and where it leads


class Kept(NamedTuple):
    """Where an idle connection leads, and when it has been kept long enough."""

    place: Place
    until: float


class Connections:
    """Opens connections, and keeps those that are idle."""

    def __init__(
        self, guard: Guard, resolve_for: Callable[[str], Resolve], secured: ssl.SSLContext
    ) -> None:
        self._guard = guard
        self._resolve_for = resolve_for
        self._secured = secured
        secured.set_alpn_protocols(["http/1.1"])
        self._idle = dict[Place, deque[httpcore.AsyncHTTP11Connection]]()
        self._kept = OrderedDict[httpcore.AsyncHTTP11Connection, Kept]()  # the oldest first
        self._timer: asyncio.TimerHandle | None = None  # for the oldest, while there is one
        self._closing: asyncio.Task[None] | None = None
        self._is_closed = False

    async def take(self, owner: Owner, aim: Target) -> httpcore.AsyncHTTP11Connection:
        """A connection that nobody else has."""
        while idle := self._idle.get(_place(owner, aim)):
            connection = idle.pop()
            self._forget(connection, idle)
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return await self.open(owner, aim)

    async def open(self, owner: Owner, aim: Target) -> httpcore.AsyncHTTP11Connection:
        """A new one."""
        resolve = self._resolve_for(owner.tenant)
        stream = await connect(aim, self._guard, resolve, self._secured)
        url = httpcore.URL(scheme=aim.scheme, host=aim.host, port=aim.port)
        return httpcore.AsyncHTTP11Connection(url.origin, stream, KEPT_SECONDS)

    async def give_back(
        self, owner: Owner, aim: Target, connection: httpcore.AsyncHTTP11Connection
    ) -> None:
        """Keep it, unless it was closed or said too much; and close what was kept long enough."""
        if self._is_closed or not connection.is_idle() or _has_more(connection):
            await connection.aclose()
            return
        place = _place(owner, aim)
        self._idle.setdefault(place, deque()).append(connection)
        self._kept[connection] = Kept(place, asyncio.get_running_loop().time() + KEPT_SECONDS)
        await self._close_old()

    async def _close_old(self) -> None:
        """Close what was kept long enough, and be called again for what was not."""
        loop = asyncio.get_running_loop()
        while self._kept:
            oldest, (place, until) = next(iter(self._kept.items()))
            if len(self._kept) <= KEPT and until > loop.time() and not oldest.has_expired():
                self._timer = self._timer or loop.call_at(until, self._time_is_up)
                break
            idle = self._idle[place]
            idle.popleft()
            self._forget(oldest, idle)
            await oldest.aclose()

    def _time_is_up(self) -> None:
        self._timer = None
        self._closing = asyncio.create_task(self._close_old())

    def _forget(
        self,
        connection: httpcore.AsyncHTTP11Connection,
        rest: deque[httpcore.AsyncHTTP11Connection],
    ) -> None:
        place = self._kept.pop(connection).place
        if not rest:
            del self._idle[place]

    async def aclose(self) -> None:
        self._is_closed = True
        if self._closing:
            await self._closing
        if self._timer:
            self._timer.cancel()
        kept = list(self._kept)
        self._kept.clear()
        self._idle.clear()
        for connection in kept:
            await connection.aclose()


def _place(owner: Owner, aim: Target) -> Place:
    return (owner, aim.scheme, aim.host, aim.port)


def _has_more(connection: httpcore.AsyncHTTP11Connection) -> bool:
    """Whether bytes came behind the answer: the next call would take them for its own."""
    more, _ = connection._h11_state.trailing_data  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  nobody else knows
    return bool(more)
