"""What came of an attempt, on its way into the database."""

import asyncio
import random
from dataclasses import dataclass, field

from procession.engine.outcome import Failed, Outcome, Skipped, Succeeded, Unknown
from procession.engine.run import Run, Step, release, settle
from procession.queue.save import Row, Seen, encode
from procession.queue.types import Claim

UNSTORABLE = "What came of the attempt could not be stored."


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of performing a claim."""

    outcome: Outcome
    duration_ms: int
    body: str | None = None

    @property
    def reduced(self) -> "Ended":
        """The same in a form that can be stored whatever it held."""
        match self.outcome:
            case Succeeded():
                outcome = Succeeded(error=UNSTORABLE)
            case Failed(retryable=retryable):
                outcome = Failed(UNSTORABLE, retryable=retryable)
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
    jitter: float = field(default_factory=random.random)
    row: bytes = b""
    step: Step | None = None
    unsure: bool = False  # the answer to a write of it was lost
    written: asyncio.Future[Step | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def decide(self, run: Run, version: int) -> None:
        """Make the row of what becomes of this run."""
        claim, now = self.claim, self.claim.now
        if self.ended is None:
            step = release(run, claim.definition, now=now, started=self.started)
        else:
            step = settle(
                run,
                claim.definition,
                self.ended.outcome,
                now=now,
                jitter=self.jitter,
                duration_ms=self.ended.duration_ms,
                body=self.ended.body,
            )
        seen = Seen(
            tenant=claim.tenant.slug,
            id=claim.id,
            version=version,
            token=claim.token,
            outputs=run.outputs,
        )
        self.row = encode(Row.of(seen, step, claim.definition, now))
        self.step = step

    def reduce(self) -> bool:
        """Take the form that can be stored; False when this is it already."""
        if self.ended is None or self.ended.reduced == self.ended:
            return False
        self.ended = self.ended.reduced
        self.decide(self.claim.run, self.claim.version)
        return True
