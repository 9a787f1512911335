"""What a workflow would do with an entry. Nothing is performed, stored or queued."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from fastapi import Request

from procession.api.body import read, takes
from procession.api.deps import Caller
from procession.api.routes import api_router, needs
from procession.api.services import services_of
from procession.api.shapes import Answer, NameText, Received, Warned, warned
from procession.api.workflow_body import Saving, Sent, WorkflowBody
from procession.engine import dry_run
from procession.engine.catalogue import Catalogue
from procession.engine.change import read_change
from procession.engine.content_type import ContentType, Sensitivity
from procession.engine.credentials import as_object
from procession.engine.dry_run import Sample
from procession.engine.entry import MANUAL, TRANSITION, Reference, may_read
from procession.engine.errors import Concern, Fault, ValidationFailedError
from procession.engine.findings import Surroundings
from procession.engine.names import told
from procession.engine.scope import Names
from procession.engine.templates import far_fields, references_in
from procession.engine.validation import EVENTS, capped
from procession.queue import tenants
from procession.queue.acting import referenced
from procession.queue.pool import Connection
from procession.queue.workflow_changes import Draft

router = api_router("workflows")


class SampleBody(Received):
    """An entry as it might be saved."""

    content_type: NameText
    status: str | None = None
    data: dict[str, object]


class TriedBody(Received):
    """What a workflow is tried with."""

    entry: SampleBody
    trigger: str | None = None


class DryRunBody(TriedBody):
    """A workflow, and what it is tried with. The trigger is the first of its events if left out."""

    workflow: WorkflowBody


class PreparedView(Answer):
    """An action, with its parameters as they would be: credentials are left out."""

    ordinal: int
    type: str
    parameters: dict[str, str]


class DryRunView(Answer):
    """Whether the workflow fires, and what its actions would get."""

    matches: bool
    failing_condition: str | None
    actions: list[PreparedView]
    warnings: list[Warned]


@dataclass(frozen=True, slots=True)
class Tried:
    """The sample that was sent, or what is wrong with it."""

    sample: Sample | None = None
    faults: Sequence[Fault] = ()
    concerns: Sequence[Concern] = ()


def tried(document: object, events: Sequence[str], around: Surroundings) -> Tried:
    """The sample of the body; the trigger is the first of these events if it is left out."""
    try:
        body = read(TriedBody, document)
    except ValidationFailedError as error:
        return Tried(faults=error.faults)
    name = body.entry.content_type
    declared = around.content_types.get(name)
    if declared is None:
        return Tried(faults=[Fault("entry.contentType", f"there is no content type {name}")])
    faults: list[Fault] = []
    wanted = body.trigger if body.trigger is not None else next(iter(events), MANUAL)
    trigger = wanted if body.trigger is None else dry_run.trigger_of(wanted, declared)
    if trigger is None:
        faults.append(Fault("trigger", triggers_of(name, declared)))
    try:
        change = read_change({"status": body.entry.status, "data": body.entry.data}, declared)
    except ValidationFailedError as error:
        faults += [Fault(f"entry.{one.name}", one.reason) for one in error.faults]
        return Tried(faults=faults)
    if trigger is None:
        return Tried(faults=faults)
    entry = dry_run.sample_entry(name, change, declared, datetime.now(UTC))
    concerns = [Concern(f"entry.{one.field}", one.message) for one in change.warnings]
    return Tried(Sample(entry, declared, trigger), concerns=concerns)


def triggers_of(name: str, declared: ContentType) -> str:
    """What a trigger may be."""
    transitions = told([TRANSITION + one for one in declared.lifecycle.transitions])
    return f"must be one of {', '.join(EVENTS)}, {MANUAL} or a transition of {name}: " + (
        transitions or "it declares none"
    )


def below_workflow(name: str) -> str:
    """The path of a field of the workflow, from the body it came in."""
    return "workflow" if name == "body" else f"workflow.{name}" if name else ""


@router.post(
    "/workflows/dry-run",
    dependencies=[needs("manage_workflows")],
    openapi_extra=takes(DryRunBody),
)
async def dry_run_workflow(request: Request, saving: Saving, caller: Caller) -> DryRunView:
    """Show what a workflow would do with an entry, and do nothing."""
    services, beside = services_of(request), saving.beside
    trial = await beside.do(partial(trial_of, saving))
    names = replace(trial.sample.names(), console_url=services.console_url)
    references, fields = set[Reference](), set[str]()
    if may_read(Sensitivity.PUBLIC, caller.capabilities):
        references, fields = await beside.do(partial(far, trial, names))
    async with services.pool.connection() as conn:
        names = await of_tenant(conn, caller.tenant, names)
        if references:
            found = await referenced(conn, caller.tenant, references, fields)
            names = replace(names, references=found)
    fill = partial(dry_run.prepare, trial.draft.definition, trial.catalogue, names)
    prepared, concerns = await beside.do(fill)
    verdict = dry_run.judge(trial.draft.definition, trial.sample, enabled=trial.draft.enabled)
    told = (*verdict.reasons, *trial.concerns, *concerns, *trial.of_workflow)
    return DryRunView(
        matches=verdict.matches,
        failing_condition=verdict.failing_condition,
        actions=[
            PreparedView(ordinal=ordinal, type=one.type, parameters=dict(one.parameters))
            for ordinal, one in enumerate(prepared)
        ],
        warnings=warned(capped(told, trial.left_out)),
    )


@dataclass(frozen=True, slots=True)
class Trial:
    """A workflow and an entry that are right enough to be tried, and what is warned of them."""

    draft: Draft
    catalogue: Catalogue
    sample: Sample
    concerns: Sequence[Concern]
    of_workflow: Sequence[Concern]
    left_out: int


def trial_of(saving: Sent) -> Trial:
    """What the body asks for; all that is wrong with it raises at once."""
    document, around = saving.document, saving.around
    found = replace(saving, document=as_object(document).get("workflow")).checked(None)
    events = found.draft.definition.trigger_events if found.draft else ()
    given = tried(document, events, around)
    faults = [Fault(below_workflow(one.name), one.reason) for one in found.faults]
    if faults or given.faults or found.draft is None or given.sample is None:
        raise ValidationFailedError([*faults, *given.faults])
    of_workflow = [Concern(below_workflow(one.field), one.message) for one in found.concerns]
    return Trial(
        draft=found.draft,
        catalogue=around.catalogue,
        sample=given.sample,
        concerns=given.concerns,
        of_workflow=of_workflow,
        left_out=found.left_out,
    )


async def of_tenant(conn: Connection, slug: str, names: Names) -> Names:
    """The names as templates of this tenant read them."""
    tenant = await tenants.one(conn, slug)
    assert tenant is not None, "the caller's"
    return replace(
        names,
        time_zone=tenant.time_zone,
        currency=tenant.currency,
        site_url=tenant.site_url,
    )


def far(trial: Trial, names: Names) -> tuple[set[Reference], set[str]]:
    """The entries that the texts of the workflow refer to, and the fields they read of them."""
    texts = [*dry_run.texts(trial.draft.definition, trial.catalogue)]
    references = {one for text in texts for one in references_in(text, names)}
    return references, {one for text in texts for one in far_fields(text)}
