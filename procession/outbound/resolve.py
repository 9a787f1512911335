"""Looking up names, in threads of their own.

asyncio's look-ups share the default threads and cannot be cancelled: a dead resolver would take all
of them. Here it takes only these, and the deadline of the call is what its caller waits.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from procession.outbound.faults import NameNotResolved

Resolve = Callable[[str], Awaitable[list[str]]]  # every address of a name, in the order to dial

THREADS = 32  # more than a worker has actions in flight, so one dead name server starves nobody


class Resolver:
    """The system's resolver."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")

    async def __call__(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, look_up, host)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def look_up(host: str) -> list[str]:
    """Every address of the name; raises NameNotResolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NameNotResolved(host) from None
    return list(dict.fromkeys(str(one[4][0]) for one in found))
