"""What the queue hands to the rooms above it: what was claimed, and who is told of what happens."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from uuid import UUID

from msgspec import Struct, field

from procession.engine.content_type import ContentType
from procession.engine.entry import Entry, Event
from procession.engine.run import Action, Run, Step
from procession.engine.workflow import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is worked on, for what is logged meanwhile."""

    tenant: str | None = None
    run: UUID | None = None
    action: int | None = None
    attempt: int | None = None
    correlation: str | None = None
    trace_id: str | None = None


NOTHING = About()
about: ContextVar[About] = ContextVar("about", default=NOTHING)


class Tenant(Struct, frozen=True, kw_only=True):
    """Whose run it is, and what actions are told of them."""

    slug: str
    name: str
    time_zone: str
    currency: str
    site_url: str | None


class Claim(Struct, frozen=True, kw_only=True):
    """An attempt that this process holds the lease of, and all that performing it needs.

    A struct, since a frozen dataclass of so many fields takes ten times as long to make.
    """

    tenant: Tenant
    id: UUID  # of the run
    workflow_id: UUID
    workflow_name: str
    content_type: str
    entry_id: str
    trigger: str
    event: Event
    depth: int
    correlation_id: str | None
    traceparent: str | None
    definition: Definition
    defined: ContentType | None  # what the content type declares; None when it is gone
    entry: Entry | None  # as it was when the attempt was claimed; None when it is gone
    run: Run  # as claimed: the action is Running
    version: int
    ordinal: int
    undo: bool
    type: str
    token: int
    claimed_at: datetime  # by the database's clock
    stopwatch: float = field(default_factory=monotonic)
    asked_at: float = field(default_factory=monotonic)  # by that of `stopwatch`: no lease is older

    @property
    def action(self) -> Action:
        """The action that is in flight, or its undo."""
        action = self.run.actions[self.ordinal]
        if not self.undo:
            return action
        assert action.undo is not None, "an undo that nobody began"
        return action.undo

    @property
    def now(self) -> datetime:
        """The database's time, as far as a stopwatch can tell."""
        return self.claimed_at + timedelta(seconds=monotonic() - self.stopwatch)

    @property
    def about(self) -> About:
        """What is said of it in the logs."""
        return About(
            tenant=self.tenant.slug,
            run=self.id,
            action=self.ordinal,
            attempt=self.action.attempts,
            correlation=self.correlation_id,
            trace_id=self.traceparent and self.traceparent[3:35],
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """These were leased, by a claim that was begun at this time of Unix, in nanoseconds."""

    claims: tuple[Claim, ...]
    began: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """An outcome was written, and this is what it made true."""

    claim: Claim
    step: Step


@dataclass(frozen=True, slots=True)
class Discarded:
    """An outcome came after its lease, and changed nothing."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Released:
    """A stopping worker gave an attempt back, or ended it where that may not be."""

    claim: Claim
    step: Step


@dataclass(frozen=True, slots=True)
class Rescued:
    """A lapsed attempt of anybody's was ended."""

    tenant: str
    run_id: UUID
    step: Step


@dataclass(frozen=True, slots=True)
class Stopped:
    """The rest of a run was cancelled, since its workflow is switched off."""

    tenant: str
    run_id: UUID
    step: Step


@dataclass(frozen=True, slots=True)
class Unserved:
    """What was due failed without an attempt, since no worker has served it for ten minutes."""

    tenant: str
    run_id: UUID
    step: Step


@dataclass(frozen=True, slots=True)
class Passed:
    """A claim was made without an error, whether there was something due or not."""


@dataclass(frozen=True, slots=True)
class Beaten:
    """The worker's row was renewed."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Runs were committed, each by such a trigger."""

    triggers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waited over all tenants when that was measured; ages in seconds, 0 when nothing did."""

    measured_at: datetime
    due_runs: int
    oldest_due_age: float  # since it was queued first
    lapsed_leases: int
    oldest_lapsed_age: float  # since it lapsed


@dataclass(frozen=True, slots=True)
class Measured:
    """The backlog as it was measured last, by whichever worker."""

    backlog: Backlog


Happened = (
    Claimed
    | Recorded
    | Discarded
    | Released
    | Rescued
    | Stopped
    | Unserved
    | Passed
    | Beaten
    | Queued
    | Measured
)
Tell = Callable[[Happened], None]  # what counts, or a test that waits


def nobody(happened: Happened) -> None:
    """Tell nobody."""
