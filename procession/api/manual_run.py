"""Starting a run by hand. Its Idempotency-Key is a part of the run's own id, and kept nowhere else.

So a request that is said again finds its run, whatever has become of the workflow since.
"""

import re
from typing import Any
from uuid import UUID

from fastapi import Response, status
from pydantic import Field
from starlette.datastructures import Headers

from procession.api.body import Document, read, takes
from procession.api.deps import Call, Calling, Database
from procession.api.paths import WorkflowId
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, EntryIdText, NameText, Received
from procession.api.workflow_view import is_none
from procession.engine.errors import Fault, NotFoundError, ValidationFailedError
from procession.queue import manual, workflows
from procession.queue.manual import Wish

router = api_router("workflows")

HEADER = "Idempotency-Key"
KEY = re.compile(r"[ -~]{1,200}")
KEYED: dict[str, Any] = {
    "parameters": [
        {
            "name": HEADER,
            "in": "header",
            "description": "Makes the request safe to repeat: a repeat finds the same run.",
            "schema": {"type": "string", "pattern": "^[ -~]{1,200}$", "examples": ["order-17"]},
        }
    ]
}


class ManualRunBody(Received):
    """Which entry a run is for. The content type may be left out where only one has the id."""

    entry_id: EntryIdText
    content_type: NameText | None = None


class StartedView(Answer):
    """The run that was queued."""

    run_id: UUID
    repeated: bool | None = Field(None, exclude_if=is_none)  # only of a request said again


def _key(headers: Headers) -> tuple[str | None, list[Fault]]:
    """The key, and what is wrong with it."""
    given = headers.getlist(HEADER)
    if len(given) > 1 or not all(KEY.fullmatch(one) for one in given):
        return None, [Fault(HEADER, "must be one text of 1 to 200 printable ASCII characters")]
    return (given[0] if given else None), []


def _wish(workflow_id: UUID, document: object, call: Calling) -> Wish:
    """What is asked for; raises all that is wrong with it at once."""
    key, faults = _key(call.headers)
    try:
        body = read(ManualRunBody, document)
    except ValidationFailedError as error:
        raise ValidationFailedError([*error.faults, *faults]) from None
    if faults:
        raise ValidationFailedError(faults)
    return Wish(
        tenant=call.tenant,
        workflow_id=workflow_id,
        entry_id=body.entry_id,
        content_type=body.content_type,
        key=key,
        by=call.by,
        origin=call.origin,
        capabilities=call.caller.capabilities,
    )


@router.post(
    "/workflows/{id}/run",
    dependencies=[needs("run_workflows")],
    status_code=status.HTTP_202_ACCEPTED,
    openapi_extra=takes(ManualRunBody) | KEYED,
    responses={200: {"model": StartedView, "description": "The same request has queued it"}},
)
async def run_workflow(
    workflow_id: WorkflowId, document: Document, conn: Database, call: Call, response: Response
) -> StartedView:
    """Queue a run of the workflow for an entry that meets its conditions."""
    try:
        wish = _wish(workflow_id, document, call)
    except ValidationFailedError:
        if await workflows.one(conn, call.tenant, workflow_id) is None:
            raise NotFoundError("workflow") from None
        raise
    started = await manual.run(conn, wish)
    if started.is_repeat:
        response.status_code = status.HTTP_200_OK
    return StartedView(run_id=started.run_id, repeated=started.is_repeat or None)
