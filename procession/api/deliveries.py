"""The delivery log: what went out to receivers, and what they answered. Only ever read."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query
from msgspec.structs import asdict
from pydantic import BeforeValidator, Field

from procession.api.deps import Caller, Database, Part
from procession.api.paths import Dashed
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Time, page_of
from procession.queue import delivery_reads
from procession.queue.delivery_reads import STATUSES, Logged, Sought

router = api_router("deliveries")

BODIES = "view_webhook_response_bodies"
KINDS = f"Only what was answered so, one of {', '.join(STATUSES)}."


class DeliveryView(Answer):
    """One attempt of an action that calls a receiver."""

    id: UUID
    delivery_id: UUID
    workflow_id: UUID
    run_id: UUID
    ordinal: int
    attempt: int
    event: str
    method: str
    url: str
    request_headers: dict[str, str]
    response_status: int | None
    response_body: str | None = Field(
        None, description=f"Its first 4,096 bytes; absent for callers without {BODIES}"
    )
    response_body_cleared_at: Time | None
    requests_sent: int
    duration_ms: int
    error: str | None
    connector_slug: str | None
    request_slug: str | None
    created_at: Time


def view(logged: Logged, *, bodies: bool) -> DeliveryView:
    """The delivery as its reader may see it."""
    shown = asdict(logged)
    if not bodies:
        del shown["response_body"]
    return DeliveryView(**shown)


def _status(value: object) -> object:
    """A kind of answer in any case."""
    if isinstance(value, str) and value.lower() in STATUSES:
        return value.lower()
    raise ValueError(f"must be one of {', '.join(STATUSES)}")


def _sought(
    workflow_id: Annotated[Dashed | None, Query(alias="workflowId")] = None,
    run_id: Annotated[Dashed | None, Query(alias="runId")] = None,
    status: Annotated[str | None, BeforeValidator(_status), Query(description=KINDS)] = None,
) -> Sought:
    return Sought(workflow_id=workflow_id, run_id=run_id, status=status)


@router.get(
    "/webhook-deliveries",
    dependencies=[needs("view_workflow_runs")],
    response_model_exclude_unset=True,  # a body that may not be seen is not set
)
async def list_deliveries(
    conn: Database, caller: Caller, sought: Annotated[Sought, Depends(_sought)], part: Part
) -> Page[DeliveryView]:
    """What went out to receivers, the newest first; failed is what no answer came to."""
    bodies = BODIES in caller.capabilities
    logged, total = await delivery_reads.page(conn, caller.tenant, sought, part.span, bodies=bodies)
    shown = page_of(logged, total, part, lambda one: view(one, bodies=bodies))
    return Page[DeliveryView].model_validate(shown)
