"""A verb for many runs: counted first, then carried out by a worker; looked at, and stopped."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response, status
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from procession.api import things
from procession.api.body import Document, read, takes
from procession.api.deps import Call, Calling, Database, Part, Tenant
from procession.api.paths import BulkId, Dashed
from procession.api.routes import api_router, needs
from procession.api.run_view import who
from procession.api.shapes import (
    Answer,
    EntryIdText,
    NameText,
    Page,
    Received,
    ReceivedTime,
    Time,
    Who,
    page_of,
)
from procession.engine.bulk import Order, Verb
from procession.engine.run import RunStatus
from procession.queue import bulk
from procession.queue.bulk import Bulk, Chosen
from procession.queue.pool import Connection

router = api_router("runs")
BULK = "/workflow-runs/bulk"

# A misspelt name that were ignored would take more runs than were meant, or take them in earnest.
STRICT = ConfigDict(extra="forbid")


def _named(value: object) -> object:
    """A status by its name, exactly."""
    for one in RunStatus:
        if value == one.value:
            return one
    raise ValueError(f"must be one of {', '.join(RunStatus)}")


Named = Annotated[RunStatus, BeforeValidator(_named)]


class BulkFilter(Received):
    """Which runs. Without a status, those that the verb is for."""

    model_config = STRICT

    status: Annotated[list[Named], Field(min_length=1, max_length=6)] | None = None
    workflow_id: Annotated[Dashed, Field(strict=False)] | None = None
    entry_id: EntryIdText | None = None
    content_type: NameText | None = None
    created_from: ReceivedTime | None = None
    created_before: ReceivedTime | None = None

    @model_validator(mode="after")
    def _narrows(self) -> "BulkFilter":
        if all(value is None for _, value in self):
            raise ValueError("must name something: all the runs there are is not a choice")
        return self


class BulkBody(Received):
    """What is asked for. With dryRun the runs are counted, and nothing else is done."""

    model_config = STRICT

    filter: BulkFilter
    dry_run: bool = False


class BulkRetryBody(BulkBody):
    """The same; with unknown, what may have happened is done again too."""

    unknown: bool = False


class ChosenView(Answer):
    """Which runs were chosen."""

    status: list[RunStatus]
    workflow_id: UUID | None
    entry_id: str | None
    content_type: str | None
    created_from: Time | None
    created_before: Time | None


class CountView(Answer):
    """How many runs there are to decide on."""

    matched: int


class BulkView(Answer):
    """A verb for many runs, and how far it has come."""

    id: UUID
    verb: Verb
    unknown: bool
    filter: ChosenView
    status: bulk.Stands
    matched: int  # when it was asked for
    done: int  # of them, so far
    changed: int  # of those
    unchanged: int  # which stood as they should already
    refused: dict[str, int]  # as one run would have been, by code
    asked_by: Who | None
    created_at: Time
    finished_at: Time | None


def view(one: Bulk) -> BulkView:
    """As answers show it."""
    chosen = one.filter
    return BulkView(
        id=one.id,
        verb=one.verb,
        unknown=one.unknown,
        filter=ChosenView(
            status=list(chosen.status),
            workflow_id=chosen.workflow_id,
            entry_id=chosen.entry_id,
            content_type=chosen.content_type,
            created_from=chosen.created_from,
            created_before=chosen.created_before,
        ),
        status=one.status,
        matched=one.matched,
        done=one.done,
        changed=one.changed,
        unchanged=one.done - one.changed - sum(one.refused.values()),
        refused=one.refused,
        asked_by=who(one.asked_by),
        created_at=one.created_at,
        finished_at=one.finished_at,
    )


def _ask(verb: Verb, router: APIRouter, says: str, shape: type[BulkBody]) -> None:
    """The route by which this verb is asked for."""

    async def asked(
        document: Document, conn: Database, call: Call, response: Response
    ) -> BulkView | CountView:
        return await _asked(verb, read(shape, document), conn, call, response)

    router.add_api_route(
        f"{BULK}/{verb.lower()}",
        asked,
        methods=["POST"],
        name=f"bulk_{verb.lower()}",
        description=says,
        dependencies=[needs(verb.capability)],
        status_code=status.HTTP_202_ACCEPTED,
        response_model=None,
        openapi_extra=takes(shape),
        responses={
            200: {"model": CountView, "description": "Counted only: it was a dry run"},
            202: {"model": BulkView, "description": "A worker carries it out"},
        },
    )


async def _asked(
    verb: Verb, body: BulkBody, conn: Connection, call: Calling, response: Response
) -> BulkView | CountView:
    given = body.filter
    chosen = Chosen(
        status=tuple(given.status or verb.meant_for),
        workflow_id=given.workflow_id,
        entry_id=given.entry_id,
        content_type=given.content_type,
        created_from=given.created_from,
        created_before=given.created_before,
    )
    if body.dry_run:
        response.status_code = status.HTTP_200_OK
        return CountView(matched=await bulk.count(conn, call.tenant, chosen))
    order = Order(verb=verb, unknown=isinstance(body, BulkRetryBody) and body.unknown)
    made = view(await bulk.ask(conn, call.tenant, call.by, order, chosen))
    response.headers["Location"] = f"/api{BULK}/{made.id}"
    return made


_ask(
    Verb.CANCEL,
    router,
    "Cancel many runs. Without a status in the filter, those that are Pending or Running.",
    BulkBody,
)
_ask(
    Verb.ABANDON,
    router,
    "Abandon many runs. Without a status in the filter, those that have Failed or PartiallyFailed.",
    BulkBody,
)
_ask(
    Verb.RETRY,
    router,
    "Retry many runs: every action that has failed or waits to be tried again. Without a status in"
    " the filter, those that have Failed or PartiallyFailed.",
    BulkRetryBody,
)


@router.get(BULK, dependencies=[needs("view_workflow_runs")])
async def list_bulks(conn: Database, tenant: Tenant, part: Part) -> Page[BulkView]:
    """What was asked for many runs, the newest first. It is kept for 90 days."""
    rows, total = await bulk.page(conn, tenant, part.span)
    return Page[BulkView].model_validate(page_of(rows, total, part, view))


@router.get(f"{BULK}/{{id}}", dependencies=[needs("view_workflow_runs")])
async def read_bulk(bulk_id: BulkId, conn: Database, tenant: Tenant) -> BulkView:
    """How far it has come."""
    return view(await bulk.one(conn, tenant, bulk_id))


@router.post(f"{BULK}/{{id}}/stop", dependencies=[needs("view_workflow_runs", things.bulk_to_stop)])
async def stop_bulk(request: Request, bulk_id: BulkId, conn: Database, call: Call) -> BulkView:
    """Leave what is not done yet undone. It takes the capability that the verb takes."""
    await things.bulk_to_stop(conn, call.caller, request.path_params)
    return view(await bulk.stop(conn, call.tenant, bulk_id, call.by))
