"""What a worker does beside its actions: keep its leases, rescue those of others, say it lives.

A thread with a connection of its own, so that an action that blocks the event loop cannot lose its
lease, and no job, so that nothing it rescues can stop it. That it could not renew is noticed by the
event loop, which cancels the actions: the thread may be waiting for a server that does not answer.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from procession.queue.backlog import measured
from procession.queue.leases import (
    Held,
    Locked,
    SyncConnection,
    Unreachable,
    connection,
    renew,
)
from procession.queue.mend import Place, mend
from procession.queue.pool import Database
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.save import AT_ONCE
from procession.queue.types import Beaten, Happened, Measured, Tell, nobody
from procession.queue.unserved import fail_unserved, mark
from procession.queue.workers import Worker, beat, leave

log = logging.getLogger(__name__)

RENEWAL = 5.0  # seconds between two, of leases and of the worker's row; a lease lasts 15
RESCUE = 3.0
MENDING = 4.0
SHOWING = 5.0  # of the backlog that somebody has measured
ROUNDS = 25  # of one duty, so that the leases do not wait for it; some 500 runs in 3 s
AGAIN = 1.0  # after the database did not answer, and between two looks at the renewals


@dataclass(slots=True)
class Duty:
    """Something to be done again and again."""

    every: float
    do: Callable[[SyncConnection], bool | None]  # False: again soon
    is_urgent: bool = False  # before all others that are due
    next_at: float = 0.0


@dataclass(kw_only=True)
class Keeper:
    """Keeps what this process holds, until it is told to end."""

    database: Database
    worker: Worker
    held: Held
    tell: Tell = nobody
    shows_backlog: bool = False
    beaten_at: float = field(default_factory=monotonic)
    _place: Place = field(default_factory=Place)
    _watch: Place = field(default_factory=Place)
    _end: threading.Event = field(default_factory=threading.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: Exception | None = None

    async def run(self) -> None:
        """Keep on until `end`; the actions are cancelled when their leases cannot be renewed."""
        self._loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        thread.start()
        while not self._ended.is_set():
            self.held.fence()
            try:
                async with asyncio.timeout(AGAIN):
                    await self._ended.wait()
            except TimeoutError:
                continue
        if self._failure:
            raise self._failure

    def end(self) -> None:
        """Stop keeping, once nothing is held."""
        self._end.set()

    def _keep(self) -> None:
        duties = [
            Duty(RENEWAL, self._renew, is_urgent=True),
            Duty(RENEWAL, self._beat, is_urgent=True),
            Duty(RESCUE, self._rescue),
            Duty(RESCUE, self._stop_switched_off),
            Duty(MENDING, self._mend),
        ]
        if self.worker.claims:  # one that does not looks for nothing to do
            duties.append(Duty(RESCUE, self._fail_unserved))
        if self.shows_backlog:
            duties.append(Duty(SHOWING, self._show_backlog))
        try:
            while not self._end.is_set():
                self._connected(duties)
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            self._failure = error
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)

    def _connected(self, duties: list[Duty]) -> None:
        """Do what is to be done for as long as the database answers."""
        try:
            with connection(self.database) as conn:
                while not self._end.wait(max(0.0, min(d.next_at for d in duties) - monotonic())):
                    # one at a time, so that the leases wait for one other at most
                    now = monotonic()
                    due = (one for one in duties if one.next_at <= now)
                    if one := min(due, key=_turn, default=None):
                        _do(one, conn)
                leave(conn, self.worker)
        except Unreachable as error:
            log.warning("The keeper cannot reach the database: %s", type(error).__name__)
            self._end.wait(AGAIN)

    def _renew(self, conn: SyncConnection) -> bool:
        began = monotonic()
        claims = self.held.claims()
        left = renew(conn, claims)
        self.held.renewed(began, [one.token for one in claims], left.behind)
        if left.gone:
            self._loop.call_soon_threadsafe(self.held.lose, left.gone)
        return not left.behind

    def _beat(self, conn: SyncConnection) -> None:
        beat(conn, self.worker)
        self.beaten_at = monotonic()
        self._say(Beaten())

    def _rescue(self, conn: SyncConnection) -> None:
        self._rounds(lambda: rescue(conn))

    def _stop_switched_off(self, conn: SyncConnection) -> None:
        self._rounds(lambda: stop_switched_off(conn))

    def _fail_unserved(self, conn: SyncConnection) -> None:
        self._watch = mark(conn, self._watch)
        self._rounds(lambda: fail_unserved(conn))

    def _rounds(self, end: Callable[[], Sequence[Happened]]) -> None:
        """End what there is to end, but not for so long that the renewals wait."""
        until = monotonic() + AGAIN
        for _ in range(ROUNDS):
            ended = end()
            for one in ended:
                self._say(one)
            if not ended or (len(ended) < AT_ONCE and monotonic() > until):
                return  # fewer may be all of them, or all that there was time for

    def _mend(self, conn: SyncConnection) -> None:
        self._place = mend(conn, self._place)

    def _show_backlog(self, conn: SyncConnection) -> None:
        if (found := measured(conn)) is not None:
            self._say(Measured(found))

    def _say(self, happened: Happened) -> None:
        self._loop.call_soon_threadsafe(self.tell, happened)


def _turn(duty: Duty) -> tuple[bool, float]:
    return not duty.is_urgent, duty.next_at


def _do(duty: Duty, conn: SyncConnection) -> None:
    duty.next_at = monotonic() + AGAIN  # if it fails: the others have their turn before
    try:
        soon = duty.do(conn) is False
    except Locked:  # by somebody who stands still: the other duties go on
        log.warning("A duty of the keeper met a row that is locked, and is tried again")
        return
    except Exception as error:
        if duty.is_urgent or isinstance(error, Unreachable):
            raise
        log.exception("A duty of the keeper failed, and is tried again")
        return
    if not soon:
        duty.next_at = monotonic() + duty.every
