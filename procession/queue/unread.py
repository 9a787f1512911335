"""Runs that cannot be read: somebody has edited them by hand, or a newer release has written them.

What is wrong with one of them holds up no other.
"""

import logging
from time import monotonic
from uuid import UUID

log = logging.getLogger(__name__)

LEFT = 600.0  # seconds; somebody may have put it right by then
MOST_UNREAD = 10_000  # that are remembered


class Unread:
    """Those that one process has met: each is said once, and left alone for a while."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def ids(self) -> list[UUID]:
        """Those that are left for now."""
        now = monotonic()
        return [id_ for id_, until in self._until.items() if until > now]

    def add(self, id_: UUID, error: Exception) -> None:
        """Leave it, since it cannot be read."""
        if self._until.pop(id_, None) is None:
            log.error("Run %s cannot be read or written and is left as it is", id_, exc_info=error)
        self._until[id_] = monotonic() + LEFT
        if len(self._until) > MOST_UNREAD:
            del self._until[next(iter(self._until))]

    def drop(self, id_: UUID) -> None:
        """Forget it: it was put right."""
        self._until.pop(id_, None)
