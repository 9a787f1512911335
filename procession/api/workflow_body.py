"""What a save of a workflow sends, and what is found right or wrong with it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from procession.api.aside import Aside, Beside
from procession.api.body import Document
from procession.api.deps import Call, Calling, Database, Tenant
from procession.api.paths import WorkflowId
from procession.api.services import Services, services_of
from procession.api.shapes import Received
from procession.engine.carrying import carry
from procession.engine.catalogue import Catalogue
from procession.engine.credentials import declared
from procession.engine.errors import Concern, Fault, ValidationFailedError
from procession.engine.findings import Surroundings
from procession.engine.validation import capped, check_definition
from procession.engine.workflow import Definition, OnFailure
from procession.queue import requests, workers, workflows
from procession.queue.pool import Connection
from procession.queue.sealing import Ring
from procession.queue.workflow_changes import Draft
from procession.queue.workflow_secrets import Sealer

LOST = "a credential is stored here that the new definition does not hold"


class CompensateBody(Received):
    """The action that takes another one back."""

    type: str
    parameters: dict[str, str | None] | None = None
    credentials_set: list[str] | None = None


class ActionBody(Received):
    """An action."""

    type: str
    parameters: dict[str, str | None] | None = None
    credentials_set: list[str] | None = None
    on_failure: OnFailure | None = None
    capture: list[str] | None = None
    compensate: CompensateBody | None = None


class WorkflowBody(Received):
    """A workflow."""

    name: str
    trigger_content_types: list[str]
    trigger_events: list[str]
    conditions: dict[str, str] | None = None
    actions: list[ActionBody]
    enabled: bool | None = None
    executor: None = None


class EnabledBody(Received):
    """Whether it is to be on."""

    enabled: bool


async def _catalogue(request: Request, conn: Database) -> Catalogue:
    return await _types(services_of(request), conn)


async def _types(services: Services, conn: Connection) -> Catalogue:
    """The types that this process knows, and those that live workers do."""
    known = services.catalogue
    return known.beside(await workers.described(conn, known.types))


Types = Annotated[Catalogue, Depends(_catalogue)]


async def _surroundings(request: Request, tenant: Tenant) -> Surroundings:
    """Read before the route has its connection, which is not held while a body is checked."""
    services = services_of(request)
    async with services.pool.connection() as conn:
        return Surroundings(
            await _types(services, conn),
            await workflows.declared(conn, tenant),
            services.insecure_signed_urls,
            requests=await requests.slugs(conn, tenant),
            longest=services.longest,
            most_seconds=services.most_seconds,
        )


Around = Annotated[Surroundings, Depends(_surroundings)]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a body says, and what is wrong with it."""

    draft: Draft | None
    faults: tuple[Fault, ...]
    concerns: tuple[Concern, ...]
    left_out: int  # of the concerns

    @property
    def warnings(self) -> tuple[Concern, ...]:
        """The concerns as an answer shows them."""
        return capped(self.concerns, self.left_out)

    def right(self) -> Draft:
        """What is to be saved; all that is wrong raises at once."""
        if self.draft is None or self.faults:
            raise ValidationFailedError(self.faults)
        return self.draft


@dataclass(frozen=True, slots=True)
class Sent:
    """A save, and what it is checked against."""

    document: object
    around: Surroundings
    call: Calling
    ring: Ring
    beside: Beside

    async def found(self, stored: Definition | None) -> Findings:
        """What comes of it where this is stored; None before the first save."""
        return await self.beside.do(partial(self.checked, stored))

    def checked(self, stored: Definition | None) -> Findings:
        """The same, where the caller is beside the loop himself."""
        carried = carry(self.document, stored, self.around.catalogue)
        checked = check_definition(carried.body, replace(self.around, kept=carried.kept))
        lost = (Concern(path, LOST) for path in carried.dropped)
        return Findings(
            checked.definition and Draft(checked.definition, checked.enabled, carried.kept),
            (*checked.faults, *carried.faults),
            (*checked.concerns, *lost),
            checked.left_out,
        )

    def sealed(self, draft: Draft, workflow_id: UUID, stored: Definition | None = None) -> Draft:
        """What is to be written: no credential of it can be read."""
        pick = declared(self.around.catalogue)
        return Sealer(self.ring, pick, self.call.tenant, workflow_id).sealed(draft, stored)


def _sent(request: Request, document: Document, around: Around, call: Call, beside: Aside) -> Sent:
    return Sent(document, around, call, services_of(request).ring, beside)


Saving = Annotated[Sent, Depends(_sent)]


async def _first(saving: Saving) -> Findings:
    return await saving.found(None)


# Ask for either before `Database`: it is worked out before the route has its connection.
First = Annotated[Findings, Depends(_first)]  # of a save of what is not stored yet


@dataclass(frozen=True, slots=True)
class Revised:
    """What comes of a save where this is stored."""

    stored: Definition
    found: Findings


async def _revised(request: Request, workflow_id: WorkflowId, saving: Saving) -> Revised | None:
    async with services_of(request).pool.connection() as conn:
        stored = await workflows.one(conn, saving.call.tenant, workflow_id)
    if stored is None:
        return None
    return Revised(stored.definition, await saving.found(stored.definition))


Revision = Annotated[Revised | None, Depends(_revised)]  # None where there is nothing to revise
