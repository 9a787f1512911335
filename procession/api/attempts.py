"""A bound on refused credentials: an address that has had too many is told to wait.

Nobody else feels it: it counts by address, and a credential that has worked of late is let by,
since behind a proxy good and bad callers may share one. Both tables are of a fixed size and forget
what was idle longest, so that a flood costs no memory.
"""

import hashlib
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from time import monotonic
from typing import TypeVar

from procession.engine.errors import TooManyAttemptsError, UnauthenticatedError

Name = TypeVar("Name")
Value = TypeVar("Value")

MOST = 60  # refusals at once; far more than a mistake makes, far fewer than guessing needs
EACH = 1.0  # seconds until one more is let through
ADDRESSES = 10_000
TRUSTED = 1_000  # credentials that have worked of late


class Attempts:
    """What one process remembers of who was refused, and of who was not."""

    def __init__(
        self,
        most: int = MOST,
        each: float = EACH,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._most = most
        self._each = each
        self._clock = clock
        self._full_at = OrderedDict[str, float]()  # by address: when all of its refusals are old
        self._looks = Counter[str]()  # by address: of those that have not worked of late
        self._trusted = OrderedDict[bytes, None]()

    @contextmanager
    def look(self, address: str, credential: str) -> Generator[None]:
        """While this credential is looked at; raises TooManyAttemptsError instead.

        Where it is refused that counts, and it is trusted no more: it was good once only.
        """
        place, digest = _place(address), hashlib.sha256(credential.encode()).digest()
        if digest in self._trusted:
            with self._counting(place, digest):
                yield
            return
        self._admit(place)
        self._looks[place] += 1
        try:
            with self._counting(place, digest):
                yield
        finally:
            self._looks[place] -= 1
            if not self._looks[place]:
                del self._looks[place]

    def _admit(self, place: str) -> None:
        """Let it be looked at. Where some were refused, those that are looked at may be too."""
        ahead = self._full_at.get(place, -math.inf) - self._clock()
        wait = ahead + (self._looks[place] - self._most + 1) * self._each
        if ahead > 0 and wait > 0:
            raise TooManyAttemptsError(math.ceil(wait))

    @contextmanager
    def _counting(self, place: str, digest: bytes) -> Generator[None]:
        try:
            yield
        except UnauthenticatedError:
            self._trusted.pop(digest, None)
            self._refused(place)
            raise
        _keep(self._trusted, digest, None, TRUSTED)

    def _refused(self, place: str) -> None:
        """Count one. However many come at once, the next is let through as soon as it is said."""
        now = self._clock()
        full_at = max(self._full_at.get(place, now), now) + self._each
        _keep(self._full_at, place, min(full_at, now + self._most * self._each), ADDRESSES)


def _keep(table: OrderedDict[Name, Value], name: Name, value: Value, most: int) -> None:
    """Note it, in the place of what was idle longest where there are so many."""
    table[name] = value
    table.move_to_end(name)
    if len(table) > most:
        table.popitem(last=False)


@lru_cache(maxsize=1_000)
def _place(address: str) -> str:
    """Whose address it is: of IPv6, one holder has at least a network of 64 bits."""
    try:
        read = ip_address(address)
    except ValueError:
        return address  # of a socket that has none
    if not isinstance(read, IPv6Address):
        return address
    mapped = read.ipv4_mapped
    return str(mapped) if mapped else str(ip_network((int(read) >> 64 << 64, 64)))
