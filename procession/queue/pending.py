"""A decision on its way into the database, and the form that can be stored whatever it held.

What cannot be written in any form is left to its lease: that lapses, and the attempt is rescued.
"""

import asyncio
import logging
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from procession.engine.delivery import Delivery
from procession.engine.outcome import Failed, Outcome, Skipped, Succeeded, Unknown
from procession.engine.plain import text_of
from procession.engine.run import Run, Step, release, settle
from procession.queue.deliveries import LogHeldUpError
from procession.queue.pool import Connection
from procession.queue.save import save
from procession.queue.step_row import Row, Seen, encode
from procession.queue.types import Claim, about

log = logging.getLogger(__name__)

LARGE = 8_000_000  # bytes of rows, behind which no other is written by the same statement
UNSTORABLE = "What came of the attempt could not be stored."
PATIENCE = timedelta(seconds=3)  # with a statement that logs deliveries too


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of performing a claim."""

    outcome: Outcome
    duration_ms: int
    body: str | None = None
    deliveries: tuple[Delivery, ...] = ()

    @property
    def reduced(self) -> "Ended":
        """The same in a form that can be stored whatever it held."""
        match self.outcome:
            case Succeeded():
                outcome = Succeeded(error=UNSTORABLE)
            case Failed(retryable=retryable):
                outcome = Failed(UNSTORABLE, retryable=retryable is True)
            case Unknown():
                outcome = Unknown(UNSTORABLE)
            case Skipped():
                outcome = Skipped(UNSTORABLE)
        return Ended(outcome, self.duration_ms)


@dataclass(slots=True)
class Pending:
    """A decision on its way into the database."""

    claim: Claim
    ended: Ended | None  # None: the claim is given back
    started: bool = True
    body: str | None = None  # of a claim that is given back
    deliveries: list[bytes] = field(default_factory=list[bytes])  # their rows
    apart: bool = False  # those are written after it
    jitter: float = field(default_factory=random.random)
    row: bytes = b""
    step: Step | None = None
    due_at: datetime | None = None  # when the run has something else to do
    goes_on: bool = False  # and whether that is at once
    unsure: bool = False  # the answer to a write of it was lost
    is_reduced: bool = False
    left: bool = False  # to its lease
    written: asyncio.Future[Step | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def seconds(self) -> float:
        """How long it was performed for."""
        return self.ended.duration_ms / 1000 if self.ended else 0.0

    def decide(self, run: Run, version: int) -> None:
        """Make the row of what becomes of this run."""
        claim, now = self.claim, self.claim.now
        body = text_of(self.body if self.ended is None else self.ended.body)
        if self.ended is None:
            step = release(run, claim.definition, now=now, started=self.started, body=body)
        else:
            step = settle(
                run,
                claim.definition,
                self.ended.outcome,
                now=now,
                jitter=self.jitter,
                duration_ms=self.ended.duration_ms,
                body=body,
            )
        seen = Seen(
            tenant=claim.tenant.slug,
            id=claim.id,
            version=version,
            token=claim.token,
            outputs=run.outputs,
        )
        row = Row.of(seen, step, claim.definition, now)
        self.row, self.step = encode(row), step
        self.due_at = row.due_at
        self.goes_on = row.due_at is not None and row.due_at <= now

    def answer(self, step: Step | None) -> None:
        """Say what was made of the run; None when the outcome came too late."""
        if not self.written.done():  # whoever waited was cancelled
            self.written.set_result(step)

    def part(self) -> bool:
        """Leave the rows of deliveries for later; False when there are none in the way."""
        in_the_way = bool(self.deliveries) and not self.apart
        self.apart = True
        return in_the_way

    def prepare(self) -> bool:
        """Decide on the run as it was claimed; False when nothing of this can be written."""
        try:
            self.decide(self.claim.run, self.claim.version)
        except Exception as error:  # noqa: BLE001  whatever it holds, what happened is recorded
            return self.reduce(error)
        return True

    def reduce(self, error: Exception) -> bool:
        """Take the form that can be stored, after this; False when this is it already."""
        if self.is_reduced:
            self._say("An outcome cannot be stored, and is left to its lease", error)
            self.left = True
            self.answer(None)
            return False
        self._say("An outcome cannot be stored as it is", error)
        self.is_reduced, self.body = True, None
        self.ended = self.ended and self.ended.reduced
        return self.prepare()

    def _say(self, what: str, error: Exception) -> None:
        before = about.set(self.claim.about)
        log.warning("%s: %s", what, type(error).__name__)
        about.reset(before)


def taken(pending: list[Pending], most: int) -> list[Pending]:
    """The first of these, taken off: so many, and no more than are written in a moment."""
    group, size = list[Pending](), 0
    while pending and len(group) < most and size < LARGE:
        one = pending.pop(0)
        if not one.written.done():  # whoever waited was cancelled
            group.append(one)
            size += len(one.row)
    return group


async def write(
    conn: Connection, group: list[Pending], wait: str, *, queues: bool = True
) -> set[UUID]:
    """Save what these decide, in the order of the group; the ids of the runs that were written.

    Raises LogHeldUpError: who waits for the log writes no outcome, of whatever kind.
    """
    deliveries = [row for one in group if not one.apart for row in one.deliveries]
    try:
        async with asyncio.timeout(PATIENCE.total_seconds() if deliveries else None):
            return await save(
                conn, [one.row for one in group], deliveries, wait=wait, queues=queues
            )
    except TimeoutError:
        raise LogHeldUpError from None
