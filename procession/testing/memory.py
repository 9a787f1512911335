"""Entries in memory, as a run reads and changes them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from procession.actions.base import Decide
from procession.engine.access import Actor
from procession.engine.change import Making
from procession.engine.content_type import ContentType
from procession.engine.entry import Entry, Reference, events_of, public_data
from procession.engine.outcome import Failed, Outcome, Succeeded


@dataclass(slots=True)
class Memory:
    """The entries of a rehearsal, and the events that its actions' writes fired."""

    content_types: Mapping[str, ContentType]
    actor: Actor
    now: datetime
    entries: dict[Reference, Entry] = field(default_factory=dict[Reference, Entry])
    events: list[tuple[Reference, str]] = field(default_factory=list[tuple[Reference, str]])
    markers: set[str] = field(default_factory=set[str])

    def making(self, content_type: str) -> Making:
        """Who changes an entry of this content type, and when."""
        return Making(self.actor, self.now, self.content_types[content_type])

    async def once(self, marker: str, content_type: str, entry_id: str, decide: Decide) -> Outcome:
        """Write what is decided, unless the marker says that it was written before."""
        if marker in self.markers:
            return Succeeded()
        key = (content_type, entry_id)
        made = self.making(content_type) if content_type in self.content_types else None
        before = self.entries.get(key)
        after = decide(made, before)
        if isinstance(after, Failed):
            return after
        self.entries[key] = after
        self.markers.add(marker)
        if before is not after:
            self.events += [(key, event) for event in events_of(before, after)]
        return Succeeded()

    async def written(self, key: str) -> Collection[str]:
        """The markers of what the children of the action of this key have written, in order."""
        return sorted(one for one in self.markers if one.startswith(f"{key}-"))

    async def referenced(
        self, references: Collection[Reference], fields: Collection[str]
    ) -> Mapping[Reference, Mapping[str, object]]:
        """Of these fields of these entries, those that are Public."""
        return {
            one: {
                name: value
                for name, value in public_data(
                    self.content_types.get(one[0]), self.entries[one]
                ).items()
                if name in fields
            }
            for one in references
            if one in self.entries
        }
