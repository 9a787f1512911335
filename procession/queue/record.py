"""Giving back what came of a claim.

Outcomes that are ready together are written by one statement; while it is under way the next ones
gather. What somebody else wrote meanwhile is decided on anew, what comes after its lease is
discarded, and what cannot be stored is stored in a form that can.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from time import monotonic
from uuid import UUID

from psycopg.errors import LockNotAvailable, ProgramLimitExceeded

from procession.engine.delivery import Delivery
from procession.engine.run import Step
from procession.queue.deliveries import Apart, LogHeldUpError, rows_of
from procession.queue.intake import Intake
from procession.queue.late import discard_late, is_written, latest
from procession.queue.leases import Held
from procession.queue.outage import OUTAGES
from procession.queue.pending import UNSTORABLE, Ended, Pending, taken, write
from procession.queue.pool import Connection, Pool
from procession.queue.save import AT_ONCE
from procession.queue.types import Claim, Discarded, Recorded, Released, Tell, nobody

__all__ = ["UNSTORABLE", "Ended", "Recorder"]

log = logging.getLogger(__name__)

AGAIN = timedelta(milliseconds=500)  # between tries while the database does not answer
# Turns of the event loop that others are waited for: what it takes to begin and to end a claim
# that was just fetched. No clock is waited on, and for a lone outcome nothing at all.
TURNS = 16
WAIT = "1s"  # of a group for a row that somebody else has locked; a command holds one for moments,
ALONE = "100ms"  # and then of each alone, to find the one that is locked by who stands still
LAST = timedelta(seconds=5)  # for what is on its way when the worker stops


class ClosedError(Exception):
    """Nothing is written any more. The lease lapses, and the attempt is rescued."""


class Recorder:
    """Writes outcomes in groups, while `run` goes on."""

    def __init__(
        self, pool: Pool, held: Held, tell: Tell = nobody, intake: Intake | None = None
    ) -> None:
        self._pool = pool
        self._held = held
        self._tell = tell
        self._intake = intake
        self._pending: list[Pending] = []
        self._some = asyncio.Event()
        self._locked: list[Pending] = []  # tried beside the others, which do not wait for them
        self._any_locked = asyncio.Event()
        self._apart = Apart(pool)
        self._took = float("inf")  # seconds to write the last group, once there was one
        self._closed = False

    async def record(self, claim: Claim, ended: Ended) -> Step | None:
        """What the outcome made of the run; None when it came after its lease, or is left to it."""
        pending = Pending(claim, ended, deliveries=rows_of(claim, ended.deliveries))
        step = await self._write(pending, Recorded)
        if step is None and not pending.left:
            self._tell(Discarded(claim))
            await discard_late(self._pool, claim, ended.outcome, ended.duration_ms)
        return step

    async def release(
        self,
        claim: Claim,
        *,
        started: bool = True,
        body: str | None = None,
        deliveries: Iterable[Delivery] = (),
    ) -> Step | None:
        """Give a claim back, since the worker stops; None when it was lost already.

        What the next attempt must repeat is kept, and what went out is in the log.
        """
        rows = rows_of(claim, deliveries)
        pending = Pending(claim, None, started=started, body=body, deliveries=rows)
        return await self._write(pending, Released)

    def deliver(self, claim: Claim, deliveries: Iterable[Delivery]) -> None:
        """Log what an attempt sent of which nothing else is recorded, since its lease is lost."""
        self._apart.add(rows_of(claim, deliveries))

    async def _write(self, pending: Pending, told: type[Recorded] | type[Released]) -> Step | None:
        if self._closed:
            raise ClosedError
        pending.written.add_done_callback(partial(self._written, pending, told))
        if pending.prepare():
            self._later(pending)
        try:
            return await asyncio.shield(pending.written)
        except asyncio.CancelledError:
            if self._held.is_lost(pending.claim.token):
                pending.written.cancel()
            else:  # the worker stops: what is on its way may still arrive
                await asyncio.wait({pending.written}, timeout=LAST.total_seconds())
            raise

    def _written(
        self,
        pending: Pending,
        told: type[Recorded] | type[Released],
        written: asyncio.Future[Step | None],
    ) -> None:
        step = None if written.cancelled() or written.exception() else written.result()
        if step is None or pending.apart:
            self._apart.add(pending.deliveries)
        if step is not None:
            self._tell(told(pending.claim, step))

    async def run(self) -> None:
        """Write what is pending, as it comes, until cancelled; nothing is taken from then on."""
        try:
            async with asyncio.TaskGroup() as beside:
                beside.create_task(self._apart.run())
                beside.create_task(self._write_what_was_locked())
                await self._write_each_group()
        finally:
            self._closed = True
            for one in [*self._pending, *self._locked]:
                one.written.cancel()

    async def _write_each_group(self) -> None:
        while True:
            await self._some.wait()
            most = self._most()
            await self._gathered(most)
            group = taken(self._pending, most)
            if not self._pending:
                self._some.clear()
            if group:
                for one in group:
                    one.apart = one.apart or self._apart.stands_in
                began = monotonic()
                await self._flush(sorted(group, key=_place), go_on=True)
                self._took = monotonic() - began

    def _most(self) -> int:
        """How many to write at once: half of what is in flight, where performing takes longer.

        One half is performed then while the other is written: a quarter more webhooks a second.
        Of actions that do nothing it was 8 % fewer, since what a statement costs whatever it
        carries is paid twice as often.
        """
        if self._pending[0].seconds <= self._took:
            return AT_ONCE
        return min(max(1, (len(self._held) + 1) // 2), AT_ONCE)

    async def _write_what_was_locked(self) -> None:
        while True:
            await self._any_locked.wait()
            await asyncio.sleep(AGAIN.total_seconds())
            for _ in range(len(self._locked)):
                one = self._locked.pop(0)
                if not one.written.done():  # it is when its lease was lost
                    await self._flush([one], ALONE)
            if not self._locked:
                self._any_locked.clear()

    async def _gathered(self, most: int) -> None:
        """Let those that end in the same moment come along."""
        seen = 0
        while seen < len(self._pending) < min(most, len(self._held)):
            seen = len(self._pending)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    async def _flush(self, group: list[Pending], wait: str = WAIT, *, go_on: bool = False) -> None:
        intake = self._intake if go_on else None
        if intake and not intake.may_follow(group):
            intake = None
        try:
            async with self._pool.connection() as conn:
                written = await (intake.write if intake else write)(conn, group, wait)
                await self._answer(conn, group, written)
        except ProgramLimitExceeded as error:  # an OperationalError, though it is the text's fault
            await self._one_by_one(group, error)
        except LockNotAvailable:  # nothing of the group was written
            await self._set_aside(group)
        except (*OUTAGES, LogHeldUpError) as error:
            log.warning("Outcomes cannot be written: %s", type(error).__name__)
            self._apart.heed(error)
            await asyncio.sleep(AGAIN.total_seconds())
            for one in group:
                one.unsure = one.apart = True  # what it sent may be what is in the way
                self._later(one)
        except Exception as error:  # noqa: BLE001  whatever one of them met, the others go on
            left = [one for one in group if not one.written.done()]
            if intake and left:
                await self._flush(left)  # it may be the claim that failed
            elif left:
                await self._one_by_one(left, error)

    async def _answer(self, conn: Connection, group: list[Pending], written: set[UUID]) -> None:
        for one in group:
            if one.claim.id in written:
                one.answer(one.step)
        for one in group:
            if one.claim.id not in written:
                await self._moved_on(conn, one)

    async def _set_aside(self, group: list[Pending]) -> None:
        """Part a group that waited for too long, and keep apart what alone does so too."""
        if len(group) > 1:
            for one in group:
                await self._flush([one], ALONE)
            return
        log.warning("An outcome waits: somebody else has locked its run")
        self._locked += group
        self._any_locked.set()

    async def _moved_on(self, conn: Connection, one: Pending) -> None:
        """Decide anew on a run that somebody else wrote, if it is held still."""
        if found := await latest(conn, one.claim):
            one.decide(*found)
            self._later(one)
        elif one.unsure and one.step and await is_written(conn, one.claim, one.step):
            one.answer(one.step)
        else:
            one.answer(None)

    def _later(self, one: Pending) -> None:
        if not one.written.done():
            self._pending.append(one)
            self._some.set()

    async def _one_by_one(self, group: list[Pending], error: Exception) -> None:
        """Part a group that cannot be written, and reduce the one that cannot be alone."""
        if len(group) > 1:
            for one in group:
                await self._flush([one])
            return
        (one,) = group
        if one.part() or one.reduce(error):
            self._later(one)


def _place(one: Pending) -> tuple[str, UUID]:
    return one.claim.tenant.slug, one.claim.id
