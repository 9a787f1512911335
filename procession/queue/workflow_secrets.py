"""The credentials in a workflow's definition, as its versions keep them."""

from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from procession.engine.credentials import Pick, mapped, places
from procession.engine.workflow import Definition
from procession.queue.sealing import Place, Ring, UnreadableError
from procession.queue.workflow_changes import Draft, is_same


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals what a save sends."""

    ring: Ring
    pick: Pick
    tenant: str
    workflow_id: UUID

    def sealed(self, draft: Draft, stored: Definition | None) -> Draft:
        """The draft as it may be written.

        A credential that is stored already stays as it is, so that nothing has changed where
        nothing else did; what is written anew is sealed by the first key.
        """
        before = places(stored, self.pick) if stored else {}

        def seal(place: str, value: str) -> str:
            if place in draft.kept:
                return value
            return self.ring.resealed(value, before.get(place), self.place(place))

        def renew(place: str, value: str) -> str:
            with suppress(UnreadableError):  # it is to be entered again, and is no less lost here
                return self.ring.renewed(value, self.place(place))
            return value

        made = mapped(draft.definition, self.pick, seal)
        if stored is None or not is_same(made, stored):
            made = mapped(made, self.pick, renew)
        return Draft(made, draft.enabled)

    def place(self, path: str) -> Place:
        return Place(self.tenant, str(self.workflow_id), path)
