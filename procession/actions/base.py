"""What an action is made of, as packages outside see it.

One object of an action's class serves every attempt of a process, so it keeps nothing of an attempt
in itself. What an attempt knows is its context; what it says is one of the four outcomes.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol
from uuid import UUID

from procession.engine.catalogue import Parameter
from procession.engine.change import Decide
from procession.engine.content_type import ContentType
from procession.engine.delivery import Delivery
from procession.engine.entry import Entry, Event, Reference, Stub
from procession.engine.outcome import Failed, Outcome, Skipped, Succeeded, Unknown
from procession.engine.plain import text_of
from procession.engine.workflow import ActionDefinition
from procession.outbound.http import TenantClient
from procession.queue.requests import Found

__all__ = [
    "Action",
    "Children",
    "Context",
    "Decide",
    "Entries",
    "Event",
    "Failed",
    "Kept",
    "Outcome",
    "Parameter",
    "Skipped",
    "Stub",
    "Succeeded",
    "Tenant",
    "Unknown",
]


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose run it is."""

    slug: str
    name: str = ""
    time_zone: str = "UTC"
    currency: str = "USD"
    site_url: str | None = None


@dataclass(slots=True)
class Kept:
    """What an attempt leaves behind, however it ends.

    The body is what every attempt of one action must repeat to the byte, filled by the first. The
    deliveries are what the log will show of this attempt's calls; a child shares its parent's list.
    """

    body: str | None = None
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    store: Callable[[str], Awaitable[None]] | None = None  # where a worker may be killed meanwhile

    async def put(self, body: str) -> None:
        """Keep what is about to be sent."""
        text = text_of(body)
        if text is None:
            raise TypeError("a body is a text")
        self.body = text
        if self.store is not None:
            await self.store(text)


class Entries(Protocol):
    """The entries of the tenant, as an attempt reads and changes them."""

    async def once(self, marker: str, content_type: str, entry_id: str, decide: Decide) -> Outcome:
        """Write what is decided, unless the marker says that it was written before."""
        ...

    async def written(self, key: str) -> Collection[str]:
        """The markers of what the children of the action of this key have written, in order."""
        ...

    async def referenced(
        self, references: Collection[Reference], fields: Collection[str]
    ) -> Mapping[Reference, Mapping[str, object]]:
        """Of these fields of these entries, those that are Public."""
        ...


class Children(Protocol):
    """What an action that is made of others performs them by."""

    def serves(self, type_: str) -> bool:
        """Whether there is such a type."""
        ...

    async def perform(self, child: ActionDefinition, place: str, kept: Kept) -> Outcome:
        """Perform it as if it stood by itself, under the action's key followed by its place."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an attempt knows."""

    tenant: Tenant
    run_id: UUID
    workflow_id: UUID
    workflow_name: str
    trigger: str
    ordinal: int
    attempt: int
    idempotency_key: str
    entry: Entry | Stub
    http: TenantClient
    content_type: ContentType | None = None
    event: Event = field(default_factory=Event)
    requests: Mapping[str, Found] | None = None  # as they were when the attempt began
    compensation_of: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    kept: Kept = field(default_factory=Kept)
    entries: Entries | None = None  # none where there is nothing but the action, as in some tests
    children: Children | None = None


class Action(ABC):
    """One type of action. A plain `def perform` runs in a thread of its own."""

    parameters: ClassVar[tuple[Parameter, ...]] = ()
    outputs: ClassVar[tuple[str, ...]] = ()
    # True asks the author to use the idempotency key; it may be a method of the parameters
    repeatable: bool | Callable[[Mapping[str, str]], bool] = False

    @abstractmethod
    def perform(
        self, context: Context, parameters: Mapping[str, str]
    ) -> Outcome | Awaitable[Outcome]:
        """Do it once, and say what came of it. A type that lacks this cannot be made or served."""
