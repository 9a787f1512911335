"""How the workflows have been doing, in as many days as finished runs are kept for."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request
from pydantic import BeforeValidator, Field

from procession.api.deps import Database, Part, Tenant, digits
from procession.api.routes import api_router, needs
from procession.api.services import Retention, services_of
from procession.api.shapes import Answer, Page, Time, page_of
from procession.engine.run import Compensation, RunStatus
from procession.queue import health_of_workflows
from procession.queue.health_of_workflows import Health, LastOutcome, Window

router = api_router("workflows")

MOST_DAYS = 90


class LastOutcomeView(Answer):
    """How a run ended."""

    run_id: UUID
    status: RunStatus
    compensation: Compensation | None
    abandoned_at: Time | None
    completed_at: Time


class HealthView(Answer):
    """How a workflow has been doing."""

    workflow_id: UUID
    name: str
    enabled: bool
    last_outcomes: list[LastOutcomeView]
    finished_runs: int
    success_rate: float | None
    average_action_duration_ms: float | None


class HealthPage(Page[HealthView]):
    """Part of the list of workflows, and the window that it tells of."""

    window_days: int


def window(asked: int, retention: Retention) -> int:
    """As many days of what is asked for as there is something kept of, for any way to end."""
    kept = [one.days for one in (retention.succeeded, retention.failed) if one is not None]
    return min(asked, MOST_DAYS, *kept)


def outcome_view(one: LastOutcome) -> LastOutcomeView:
    return LastOutcomeView(
        run_id=one.id,
        status=one.status,
        compensation=one.compensation,
        abandoned_at=one.abandoned_at,
        completed_at=one.completed_at,
    )


def health_view(one: Health) -> HealthView:
    return HealthView(
        workflow_id=one.id,
        name=one.name,
        enabled=one.enabled,
        last_outcomes=[outcome_view(run) for run in one.last],
        finished_runs=one.finished,
        success_rate=one.succeeded / one.finished if one.finished else None,
        average_action_duration_ms=one.duration_ms,
    )


WindowDays = Annotated[
    Annotated[int, Field(ge=1)], BeforeValidator(digits), Query(alias="windowDays")
]


@router.get("/workflows/health", dependencies=[needs("view_workflow_runs")])
async def list_workflow_health(
    request: Request, conn: Database, tenant: Tenant, part: Part, window_days: WindowDays = 7
) -> HealthPage:
    """How the workflows have been doing, by name. Deleted ones are left out."""
    retention = services_of(request).retention
    days = window(window_days, retention)
    looked_back = Window(timedelta(days=days), retention.succeeded)
    found = await health_of_workflows.page(conn, tenant, looked_back, part.span)
    fields = page_of(found.items, found.total, part, health_view)
    return HealthPage.model_validate({**fields, "window_days": days})
