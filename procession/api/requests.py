"""Stored requests: what is sent through a connector, by the workflows that name it."""

from typing import Annotated

from fastapi import Path, Response, status

from procession.api.body import Document, takes
from procession.api.deps import Call, Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Received, Time, page_of
from procession.engine.errors import found
from procession.engine.request_definition import JSON, Method, Success, parse_request
from procession.queue import requests
from procession.queue.requests import Kept

router = api_router("connectors")
VIEW, MANAGE = [needs("view_connectors")], [needs("manage_connectors")]
Slug = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", examples=["book-invoice"])]
ONE = "/requests/{slug}"


class RequestBody(Received):
    """A request; path, headers and body may have holes such as `{{data.Title}}`."""

    name: str
    connector_slug: str
    method: Method = Method.POST
    path_template: str
    header_templates: dict[str, str] | None = None
    body_template: str | None = None
    body_content_type: str = JSON
    success: Success = Success.TWO_HUNDRED
    success_json_path: str | None = None


class RequestView(Answer):
    """A stored request."""

    slug: str
    name: str
    connector_slug: str
    method: Method
    path_template: str
    header_templates: dict[str, str]
    body_template: str | None
    body_content_type: str
    success: Success
    success_json_path: str | None
    updated_at: Time


def view(kept: Kept) -> RequestView:
    one = kept.definition
    return RequestView(
        slug=kept.slug,
        name=one.name,
        connector_slug=one.connector_slug,
        method=one.method,
        path_template=one.path_template,
        header_templates=one.header_templates,
        body_template=one.body_template,
        body_content_type=one.body_content_type,
        success=one.success,
        success_json_path=one.success_json_path,
        updated_at=kept.updated_at,
    )


@router.put(
    ONE,
    dependencies=MANAGE,
    openapi_extra=takes(RequestBody),
    responses={201: {"model": RequestView, "description": "It is new"}},
)
async def save_request(
    slug: Slug, document: Document, conn: Database, call: Call, response: Response
) -> RequestView:
    """Make a request, or replace all of it."""
    definition = parse_request(document)
    kept, is_new = await requests.save(conn, call.tenant, slug, definition, call.by)
    if is_new:
        response.status_code = status.HTTP_201_CREATED
    return view(kept)


@router.get("/requests", dependencies=VIEW)
async def list_requests(conn: Database, tenant: Tenant, part: Part) -> Page[RequestView]:
    """The requests, by slug."""
    rows, total = await requests.page(conn, tenant, part.span)
    return Page[RequestView].model_validate(page_of(rows, total, part, view))


@router.get(ONE, dependencies=VIEW)
async def read_request(slug: Slug, conn: Database, tenant: Tenant) -> RequestView:
    """One request."""
    return view(found(await requests.one(conn, tenant, slug), "request"))


@router.delete(ONE, dependencies=MANAGE, status_code=status.HTTP_204_NO_CONTENT)
async def delete_request(slug: Slug, conn: Database, call: Call) -> None:
    """Take a request away; what a workflow still sends of it fails."""
    await requests.delete(conn, call.tenant, slug, call.by)
