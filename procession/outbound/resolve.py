"""Looking up names, in threads of their own.

asyncio's look-ups share the default threads and cannot be cancelled: a dead resolver would take all
of them. Here it takes only these, and the deadline of the call is what its caller waits. A look-up
goes on in its thread when its caller has gone, so one who calls many dead names has few of them.
The threads are daemons: a name that nobody answers for holds up no exit.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Semaphore, Thread
from weakref import WeakValueDictionary

from procession.outbound.faults import NameNotLookedUp, NameNotResolved
from procession.outbound.progress import PROGRESS, Progress

Resolve = Callable[[str], Awaitable[list[str]]]  # every address of a name, in the order to dial

THREADS = 64
ROOM = 8  # of them for one who asks, so that one tenant's dead names starve nobody else


class Resolver:
    """The system's resolver. A name that is being looked up is not looked up once more."""

    def __init__(self) -> None:
        self._threads = Threads()
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
        running = self._running[host] = asyncio.wrap_future(self._threads.look_up(host))
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
        self._threads.close()


class Threads:
    """As many as are needed at once, up to a bound. An executor's are waited for at the exit."""

    def __init__(self) -> None:
        self._asked = SimpleQueue[tuple[str, Future[list[str]]] | None]()
        self._idle = Semaphore(0)
        self._begun = 0

    def look_up(self, host: str) -> Future[list[str]]:
        """What `look_up` gives, once one of them has had time for it."""
        answer = Future[list[str]]()
        self._asked.put((host, answer))
        if not self._idle.acquire(blocking=False) and self._begun < THREADS:
            self._begun += 1
            Thread(target=self._answer, name="resolve", daemon=True).start()
        return answer

    def _answer(self) -> None:
        while asked := self._asked.get():
            host, answer = asked
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(look_up(host))
                except Exception as error:  # noqa: BLE001  it is for whoever asked
                    answer.set_exception(error)
            self._idle.release()

    def close(self) -> None:
        """Let each end when it is idle."""
        for _ in range(self._begun):
            self._asked.put(None)


def look_up(host: str) -> list[str]:
    """Every address of the name; raises NameNotResolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NameNotResolved(host) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))
