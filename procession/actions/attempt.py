"""What is to be performed, and what came of it: the values that go in and out of `perform`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from procession.actions.base import Children, Context, Entries, Event, Kept, Tenant
from procession.engine.branches import LETTERED
from procession.engine.content_type import ContentType
from procession.engine.delivery import Delivery
from procession.engine.entry import DELETED, Entry, Reference, Stub
from procession.engine.outcome import Outcome
from procession.engine.workflow import ActionDefinition, Compensate, Definition
from procession.outbound.http import Client
from procession.queue.requests import Found
from procession.queue.sealing import NO_KEYS, Place, Ring

_CHILD = re.compile(r"-([te])(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the claim knows of the attempt to perform."""

    tenant: Tenant
    run_id: UUID
    workflow_id: UUID
    workflow_name: str
    trigger: str
    ordinal: int
    number: int
    definition: Definition
    content_type: str
    entry_id: str
    entry: Entry | None  # as it is now; None when it is gone
    undo: bool = False
    child: ActionDefinition | None = None  # of the action, that is performed in its place
    place: str = ""  # of the child: `-t0` for the first of the then branch, and so on inside
    defined: ContentType | None = None  # the entry's content type; None when it is not defined
    event: Event = field(default_factory=Event)
    outputs: Mapping[int, Mapping[str, str]] = field(default_factory=dict[int, Mapping[str, str]])
    # the public data of the entries that its templates refer to
    references: Mapping[Reference, Mapping[str, object]] = field(
        default_factory=dict[Reference, Mapping[str, object]]
    )
    # the stored requests that it sends, by slug; None where nobody has read them for it
    requests: Mapping[str, Found] | None = None
    ring: Ring = NO_KEYS  # that opens its credentials
    body: str | None = None  # what an earlier attempt kept
    console_url: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt of the action, of its undo, or of its child."""
        undo = "-undo" if self.undo else ""
        return f"{self.run_id.hex}-{self.ordinal}{undo}{self.place}"

    @property
    def action(self) -> ActionDefinition | Compensate:
        """What is to be performed, as the run's version defines it."""
        if self.child is not None:
            return self.child
        action = self.definition.actions[self.ordinal]
        if not self.undo:
            return action
        assert action.compensate is not None, "an undo that nothing declares"
        return action.compensate

    @property
    def told(self) -> dict[str, str | int]:
        """What its span says of it."""
        return {
            "procession.tenant": self.tenant.slug,
            "procession.run": str(self.run_id),
            "procession.action": self.ordinal,
            "procession.action_type": self.action.type,
            "procession.attempt": self.number,
        }

    @property
    def path(self) -> str:
        """Where the definition has what is to be performed; its credentials are bound to it."""
        undo = ".compensate" if self.undo else ""
        inside = _CHILD.sub(
            lambda child: f".parameters.{LETTERED[child[1]]}[{child[2]}]", self.place
        )
        return f"actions[{self.ordinal}]{undo}{inside}"

    def opened(self, name: str, stored: str) -> str:
        """The credential that is stored in this parameter; raises UnreadableError."""
        place = Place(self.tenant.slug, str(self.workflow_id), f"{self.path}.parameters.{name}")
        return self.ring.open(stored, place)

    @property
    def subject(self) -> Entry | Stub:
        """The entry, or what is left of it; a run that a delete fired knows no more, ever."""
        entry = None if self.trigger == DELETED else self.entry
        return entry or Stub(id=self.entry_id, content_type=self.content_type)

    @property
    def vanished(self) -> bool:
        """Whether the entry is gone and there is nothing to do without it."""
        return self.entry is None and self.trigger != DELETED and not self.undo

    def context(
        self,
        client: Client,
        kept: Kept,
        entries: Entries | None = None,
        children: Children | None = None,
    ) -> Context:
        """What the action is told."""
        return Context(
            tenant=self.tenant,
            run_id=self.run_id,
            workflow_id=self.workflow_id,
            workflow_name=self.workflow_name,
            trigger=self.trigger,
            ordinal=self.ordinal,
            attempt=self.number,
            idempotency_key=self.idempotency_key,
            entry=self.subject,
            http=client.of(self.tenant.slug).owned_by(self.action.type),
            content_type=self.defined,
            event=self.event,
            requests=self.requests,
            compensation_of=self.ordinal if self.undo else None,
            correlation_id=self.correlation_id,
            traceparent=self.traceparent,
            kept=kept,
            entries=entries,
            children=children,
        )


@dataclass(frozen=True, slots=True)
class Performed:
    """What came of an attempt."""

    outcome: Outcome
    duration_ms: int
    body: str | None = None  # to be kept for the attempts that follow
    deliveries: tuple[Delivery, ...] = ()  # for the delivery log; no secret is in them
