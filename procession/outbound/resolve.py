"""Looking up names, in threads of their own.

asyncio's look-ups share the default threads and cannot be cancelled: a dead resolver would take all
of them. Here it takes only these, and the deadline of the call is what its caller waits. A look-up
goes on in its thread when its caller has gone, so one who calls many dead names has few of them.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from weakref import WeakValueDictionary

from procession.outbound.faults import NameNotLookedUp, NameNotResolved
from procession.outbound.progress import PROGRESS, Progress

Resolve = Callable[[str], Awaitable[list[str]]]  # every address of a name, in the order to dial

THREADS = 64
ROOM = 8  # of them for one who asks, so that one tenant's dead names starve nobody else


class Resolver:
    """The system's resolver. A name that is being looked up is not looked up once more."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")
        self._running = dict[str, asyncio.Future[list[str]]]()
        self._rooms = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, asker: str) -> Resolve:
        """The resolver as this one asks it."""
        return partial(self._answer, asker)

    async def __call__(self, host: str) -> list[str]:
        return await self._answer("", host)

    async def _answer(self, asker: str, host: str) -> list[str]:
        running = self._running.get(host) or await self._begun(asker, host)
        return await asyncio.shield(running)

    async def _begun(self, asker: str, host: str) -> asyncio.Future[list[str]]:
        room = self._rooms.setdefault(asker, asyncio.Semaphore(ROOM))
        progress = PROGRESS.get(Progress())
        progress.fault = NameNotLookedUp
        await room.acquire()
        progress.fault = NameNotResolved
        if host in self._running:  # by now
            room.release()
            return self._running[host]
        loop = asyncio.get_running_loop()
        running = self._running[host] = loop.run_in_executor(self._threads, look_up, host)
        running.add_done_callback(partial(self._ended, host, room))
        return running

    def _ended(
        self, host: str, room: asyncio.Semaphore, running: asyncio.Future[list[str]]
    ) -> None:
        del self._running[host]
        room.release()
        if not running.cancelled():
            running.exception()  # seen, though everybody who asked may have gone

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def look_up(host: str) -> list[str]:
    """Every address of the name; raises NameNotResolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NameNotResolved(host) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))
