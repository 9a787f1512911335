"""Workflows: read, saved, switched, and started by hand."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from procession.client.calls import Calls, Json, path, wire
from procession.client.errors import ClientError
from procession.client.shapes import Page, Started, Workflow

WORKFLOWS = "workflows"
LOOKS, PAUSE = 20, 0.1  # how often, and every how many seconds, it is seen who else makes one
NOT_SENT = frozenset({"id", "version", "createdAt", "updatedAt", "warnings"})  # the server's to say


class Outcome(StrEnum):
    """What an apply did."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Applied:
    """A workflow after an apply. Its `warnings` are those of the save."""

    workflow: Workflow
    outcome: Outcome


class Workflows:
    """`client.workflows`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def page(self, page: int = 1, page_size: int = 50) -> Page[Workflow]:
        """Part of the workflows, by name."""
        return self._calls.get(Page[Workflow], path(WORKFLOWS), page=page, page_size=page_size)

    def all(self) -> Iterator[Workflow]:
        """Each of the workflows, by name."""
        number, more = 1, True
        while more:
            page = self.page(number, 100)
            yield from page.items
            number, more = number + 1, page.has_next_page

    def get(self, workflow_id: str) -> Workflow:
        """One workflow."""
        return self._calls.get(Workflow, path(WORKFLOWS, workflow_id))

    def named(self, name: str) -> Workflow | None:
        """The one of this name, if there is one; names need not be unique, so several raise."""
        found = self._all_named(name)
        if len(found) > 1:
            raise _several(found)
        return found[0] if found else None

    def _all_named(self, name: str) -> list[Workflow]:
        """The oldest first."""
        found = [one for one in self.all() if one.name == name]
        return sorted(found, key=lambda one: (one.created_at, one.id))

    def create(self, body: Json, idempotency_key: str | None = None) -> Workflow:
        """Make a workflow."""
        return self._calls.post(Workflow, path(WORKFLOWS), body, key=idempotency_key)

    def replace(self, workflow_id: str, body: Json, version: int | None = None) -> Workflow:
        """Replace all of it; with a version, only if it is at that one still."""
        headers = {"If-Match": None if version is None else f'"{version}"'}
        return self._calls.send(Workflow, "PUT", path(WORKFLOWS, workflow_id), body, headers)

    def apply(self, body: Mapping[str, object]) -> Applied:
        """Make it so: replace the one of this id or name, or make one. To repeat it does nothing.

        One that the body says nothing of being enabled stays as it is switched. Of several that are
        made at once under a name the oldest stays, so that nothing is done twice from then on.
        """
        sent = {name: one for name, one in body.items() if name not in NOT_SENT}
        before = self._before(body)
        if before is None:
            made = self.create(sent)
            before = self._that_stays(made)
            if before.id == made.id:
                return Applied(made, Outcome.CREATED)
        sent.setdefault("enabled", before.enabled)
        after = self.replace(before.id, sent, before.version)
        same = after.updated_at == before.updated_at
        return Applied(after, Outcome.UNCHANGED if same else Outcome.UPDATED)

    def _that_stays(self, made: Workflow) -> Workflow:
        """What was made, or the older one of another, in whose favour it is taken away again."""
        found, stays = [made], made
        for _ in range(LOOKS):
            found = self._all_named(made.name) or [stays]
            if stays is made and found[0].id != made.id:
                stays = found[0]
                self.delete(made.id)
                continue
            if len(found) == 1:
                return found[0]
            time.sleep(PAUSE)  # whoever has made another is about to see this one
        raise _several(found)

    def _before(self, body: Mapping[str, object]) -> Workflow | None:
        given = body.get("id")
        if isinstance(given, str):
            return self.get(given)
        name = body.get("name")
        return self.named(name) if isinstance(name, str) else None

    def enable(self, workflow_id: str) -> Workflow:
        """Switch it on."""
        return self._switch(workflow_id, enabled=True)

    def disable(self, workflow_id: str) -> Workflow:
        """Switch it off: what waits of its runs is cancelled as a worker reaches it."""
        return self._switch(workflow_id, enabled=False)

    def _switch(self, workflow_id: str, *, enabled: bool) -> Workflow:
        where = path(WORKFLOWS, workflow_id, "enabled")
        return self._calls.send(Workflow, "PUT", where, {"enabled": enabled})

    def delete(self, workflow_id: str) -> None:
        """Delete it, and cancel what of its runs has not happened."""
        self._calls.send(type(None), "DELETE", path(WORKFLOWS, workflow_id))

    def run(
        self,
        workflow_id: str,
        entry_id: str,
        content_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> Started:
        """Queue a run of it for an entry. The same key makes one run, however often it is said."""
        body = wire(entry_id=entry_id, content_type=content_type)
        where = path(WORKFLOWS, workflow_id, "run")
        return self._calls.post(Started, where, body, key=idempotency_key)


def _several(found: Sequence[Workflow]) -> ClientError:
    ids = ", ".join(one.id for one in found)
    name = found[0].name
    return ClientError(f"{len(found)} workflows are named {name}: say which by its id, {ids}")
