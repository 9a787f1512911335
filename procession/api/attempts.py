"""A bound on refused credentials: an address that has had too many is told to wait.

Nobody else feels it: it counts by address, and a credential that has worked of late is let by,
since behind a proxy good and bad callers may share one. Both tables are of a fixed size and forget
what was idle longest, so that a flood costs no memory.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from time import monotonic

from procession.engine.errors import TooManyAttemptsError

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
        self._trusted = OrderedDict[bytes, None]()

    def admit(self, address: str, credential: str) -> None:
        """Let this credential be looked at; raises TooManyAttemptsError instead."""
        if not self._full_at:
            return
        ahead = self._full_at.get(_place(address), -math.inf) - self._clock()
        wait = ahead - (self._most - 1) * self._each
        if wait > 0 and _digest(credential) not in self._trusted:
            raise TooManyAttemptsError(math.ceil(wait))

    def refused(self, address: str) -> None:
        """Count one against the address."""
        place, now = _place(address), self._clock()
        self._full_at[place] = max(self._full_at.get(place, now), now) + self._each
        self._full_at.move_to_end(place)
        if len(self._full_at) > ADDRESSES:
            self._full_at.popitem(last=False)

    def worked(self, credential: str) -> None:
        """Remember that this one is good."""
        digest = _digest(credential)
        self._trusted[digest] = None
        self._trusted.move_to_end(digest)
        if len(self._trusted) > TRUSTED:
            self._trusted.popitem(last=False)


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()


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
