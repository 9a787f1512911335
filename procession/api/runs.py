"""Reading runs: a list that is filtered, or followed through its changes, and one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BeforeValidator

from procession.api.changes import FOREIGN, Since, cursor, parse_since
from procession.api.deps import Database, Paging, Part, Tenant
from procession.api.paths import Dashed, RunId
from procession.api.routes import api_router, needs
from procession.api.run_view import RunView, run_view
from procession.api.services import services_of
from procession.api.shapes import EntryIdText, NameText, Page, Time, page_of
from procession.engine.errors import Fault, NotFoundError, ValidationFailedError
from procession.engine.run import RunStatus
from procession.queue import runs, stored_run
from procession.queue.pool import Connection
from procession.queue.runs import Filters, Span
from procession.queue.stored_run import StoredRun

router = api_router("runs")


class RunPage(Page[RunView]):
    """Part of the list of runs."""

    cursor: str | None
    status_counts: dict[RunStatus, int] | None
    succeeded_retained_from: Time | None
    failed_retained_from: Time | None


def _status(value: object) -> object:
    """A status in any case."""
    for one in RunStatus:
        if isinstance(value, str) and value.lower() == one.lower():
            return one
    raise ValueError(f"must be one of {', '.join(RunStatus)}")


def _filters(
    status: Annotated[RunStatus | None, BeforeValidator(_status), Query()] = None,
    workflow_id: Annotated[Dashed | None, Query(alias="workflowId")] = None,
    entry_id: Annotated[EntryIdText | None, Query(alias="entryId")] = None,
    content_type: Annotated[NameText | None, Query(alias="contentType")] = None,
) -> Filters:
    return Filters(
        status=status, workflow_id=workflow_id, entry_id=entry_id, content_type=content_type
    )


Filtered = Annotated[Filters, Depends(_filters)]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which runs, and in which order: the newest first, or those that changed since a place."""

    filters: Filters
    since: Since | None


def _since(text: str) -> str:
    parse_since(text)
    return text


def _asked(
    filters: Filtered,
    tenant: Tenant,
    changed_since: Annotated[
        str | None, AfterValidator(_since), Query(alias="changedSince")
    ] = None,
) -> Asked:
    if changed_since is None:
        return Asked(filters, None)
    since = parse_since(changed_since)
    if not since.is_of(tenant):
        raise ValidationFailedError([Fault("changedSince", FOREIGN)])
    return Asked(filters, since)


@dataclass(frozen=True, slots=True)
class Found:
    """Part of a list as it was read."""

    runs: list[StoredRun]
    total: int
    now: datetime
    cursor: str | None = None
    status_counts: Mapping[RunStatus, int] | None = None


async def newest(conn: Connection, tenant: str, filters: Filters, part: Paging) -> Found:
    counts = await runs.counts(conn, tenant, filters)
    by_status = {one: counts.by_status.get(one, 0) for one in RunStatus}
    total = by_status[filters.status] if filters.status else sum(by_status.values())
    found = await runs.page(conn, tenant, filters, part.span, total)
    return Found(found, total, counts.now, status_counts=by_status)


async def followed(
    conn: Connection, tenant: str, filters: Filters, part: Paging, since: Since
) -> Found:
    ahead = await runs.ahead(conn, tenant, filters, since.place)
    span = Span(limit=part.page_size + 1, offset=part.offset)  # one more: does anything follow?
    found: list[StoredRun] = []
    if ahead.total > part.offset:
        found = await runs.changed(conn, tenant, filters, since.place, span)
    shown = found[: part.page_size]
    more = len(found) > len(shown)
    place = cursor(tenant, since, shown, more=more, now=ahead.now)
    return Found(shown, ahead.total, ahead.now, place)


@router.get("/workflow-runs", dependencies=[needs("view_workflow_runs")])
async def list_runs(
    request: Request,
    conn: Database,
    tenant: Tenant,
    asked: Annotated[Asked, Depends(_asked)],
    part: Part,
) -> RunPage:
    """Runs, the newest first; with changedSince those that changed, in the order they did."""
    if asked.since is None:
        found = await newest(conn, tenant, asked.filters, part)
    else:
        found = await followed(conn, tenant, asked.filters, part, asked.since)
    retention = services_of(request).retention
    views = await viewed(conn, found.runs)
    return RunPage.model_validate(
        {
            **page_of(views, found.total, part, lambda view: view),
            "cursor": found.cursor,
            "status_counts": found.status_counts,
            "succeeded_retained_from": retention.succeeded and found.now - retention.succeeded,
            "failed_retained_from": retention.failed and found.now - retention.failed,
        }
    )


@router.get("/workflow-runs/{id}", dependencies=[needs("view_workflow_runs")])
async def get_run(run_id: RunId, conn: Database, tenant: Tenant) -> RunView:
    """A run with its actions and their attempts."""
    stored = await stored_run.shown(conn, tenant, run_id)
    if stored is None:
        raise NotFoundError("run")
    return await viewed_one(conn, stored)


async def viewed_one(conn: Connection, stored: StoredRun) -> RunView:
    """The run as answers show it."""
    (view,) = await viewed(conn, [stored])
    return view


async def viewed(conn: Connection, found: Sequence[StoredRun]) -> list[RunView]:
    """The runs as answers show them."""
    waits = any(one.completed_at is None for one in found)
    workers = await runs.live_workers(conn) if waits else []
    return [run_view(one, workers) for one in found]
