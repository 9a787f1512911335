"""Workflows: what happens after which events. Each save that changes something is a version."""

from functools import partial
from uuid import UUID

from fastapi import Request, Response, status

from procession.api.body import CONDITIONAL, Document, read, takes
from procession.api.deps import Call, Database, Part, Tenant, connected
from procession.api.paths import Version, WorkflowId
from procession.api.routes import api_router, needs
from procession.api.shapes import Page, page_of
from procession.api.workflow_body import (
    EnabledBody,
    First,
    Revised,
    Revision,
    Saving,
    Sent,
    Types,
    WorkflowBody,
)
from procession.api.workflow_view import WorkflowView, workflow_view
from procession.engine.errors import NotFoundError
from procession.engine.workflow import Definition
from procession.queue import workflow_changes, workflows
from procession.queue.ids import uuid7
from procession.queue.workflow_changes import Draft, is_same
from procession.queue.workflows import Workflow

router = api_router("workflows")
MANAGE = [needs("manage_workflows")]
ONE = "/workflows/{id}"


def tag(response: Response, workflow: Workflow) -> None:
    response.headers["ETag"] = f'"{workflow.version}"'


@router.post(
    "/workflows",
    dependencies=MANAGE,
    status_code=status.HTTP_201_CREATED,
    openapi_extra=takes(WorkflowBody),
)
async def create_workflow(
    saving: Saving, found: First, conn: Database, response: Response
) -> WorkflowView:
    """Make a workflow."""
    call, workflow_id = saving.call, uuid7()
    draft = saving.sealed(found.right(), workflow_id)
    workflow = await workflow_changes.create(conn, call.tenant, workflow_id, call.by, draft)
    response.headers["Location"] = f"/api/workflows/{workflow.id}"
    tag(response, workflow)
    return workflow_view(workflow, saving.around.catalogue, found.warnings)


@router.get("/workflows", dependencies=MANAGE)
async def list_workflows(
    conn: Database, tenant: Tenant, part: Part, types: Types
) -> Page[WorkflowView]:
    """The workflows, by name."""
    found = await workflows.page(conn, tenant, part.span)
    fields = page_of(found.items, found.total, part, lambda one: workflow_view(one, types))
    return Page[WorkflowView].model_validate(fields)


@router.get(ONE, dependencies=MANAGE)
async def read_workflow(
    workflow_id: WorkflowId, conn: Database, tenant: Tenant, types: Types, response: Response
) -> WorkflowView:
    """A workflow as it is now."""
    workflow = await workflows.one(conn, tenant, workflow_id)
    if workflow is None:
        raise NotFoundError("workflow")
    tag(response, workflow)
    return workflow_view(workflow, types)


@router.get(f"{ONE}/versions/{{version}}", dependencies=MANAGE)
async def read_version(
    workflow_id: WorkflowId, version: Version, conn: Database, tenant: Tenant, types: Types
) -> WorkflowView:
    """One of its versions, of a deleted workflow too, while it is kept."""
    found = await workflows.at_version(conn, tenant, workflow_id, version)
    if found is not None:
        return workflow_view(found, types)
    known = await workflows.exists(conn, tenant, workflow_id)
    raise NotFoundError("version" if known else "workflow")


@router.put(ONE, dependencies=MANAGE, openapi_extra=takes(WorkflowBody) | CONDITIONAL)
async def replace_workflow(
    request: Request, workflow_id: WorkflowId, saving: Saving, revised: Revision, response: Response
) -> WorkflowView:
    """Replace all of a workflow. It gets a new version when its definition changes."""
    call = saving.call
    while True:
        revise = partial(_revise, workflow_id, saving, revised)
        try:
            async with connected(request) as conn:
                workflow = await workflow_changes.update(
                    conn, call.tenant, workflow_id, call.by, revise
                )
        except _ChangedError as changed:  # a save compares with what is stored now
            stored = changed.definition
            revised = Revised(stored, await saving.found(stored))
            continue
        assert revised is not None, "what was replaced was there"
        tag(response, workflow)
        return workflow_view(workflow, saving.around.catalogue, revised.found.warnings)


class _ChangedError(Exception):
    """Another definition is stored than the one that the body was checked against."""

    def __init__(self, definition: Definition) -> None:
        super().__init__()
        self.definition = definition


def _revise(workflow_id: UUID, saving: Sent, revised: Revised | None, stored: Workflow) -> Draft:
    if revised is None or not is_same(revised.stored, stored.definition):
        raise _ChangedError(stored.definition)
    draft = revised.found.right()
    saving.call.precondition.check(stored.version)
    return saving.sealed(draft, workflow_id, stored.definition)


@router.put(f"{ONE}/enabled", dependencies=MANAGE, openapi_extra=takes(EnabledBody))
async def switch_workflow(
    workflow_id: WorkflowId, document: Document, conn: Database, call: Call, types: Types
) -> WorkflowView:
    """Switch a workflow on or off. That makes no version."""

    def wanted() -> bool:
        return read(EnabledBody, document).enabled

    workflow = await workflow_changes.switch(conn, call.tenant, workflow_id, call.by, wanted)
    return workflow_view(workflow, types)


@router.delete(ONE, dependencies=MANAGE, status_code=status.HTTP_204_NO_CONTENT)
async def delete_workflow(workflow_id: WorkflowId, conn: Database, call: Call) -> None:
    """Delete a workflow, and cancel what of its runs has not happened."""
    await workflow_changes.delete(conn, call.tenant, workflow_id, call.by)
