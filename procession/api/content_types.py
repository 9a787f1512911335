"""Content types: what an application declares before it sends entries."""

from typing import Annotated

from fastapi import Path, Response, status
from pydantic import Field

from procession.api.body import Document, takes
from procession.api.deps import Call, Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Received, Time, page_of
from procession.engine.content_type import STATUSES, Kind, Sensitivity, parse_content_type
from procession.engine.errors import found
from procession.queue import content_types
from procession.queue.content_types import Kept

router = api_router("content types")

Name = Annotated[str, Path(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$", examples=["Article"])]
NAMED = "/content-types/{name}"


class FieldBody(Received):
    """What is declared of a field."""

    type: Kind = Kind.TEXT
    sensitivity: Sensitivity = Sensitivity.PUBLIC


class TransitionBody(Received):
    """A named way from some statuses to one."""

    sources: Annotated[list[str], Field(alias="from", min_length=1)]
    to: str


class LifecycleBody(Received):
    """The statuses, of which a new entry has the first, and the ways between them."""

    statuses: Annotated[list[str], Field(min_length=1, default=list(STATUSES))]
    transitions: dict[str, TransitionBody] | None = None


class ContentTypeBody(Received):
    """What a content type declares."""

    fields: dict[str, FieldBody] | None = None
    lifecycle: LifecycleBody | None = None


class FieldView(Answer):
    """A field."""

    type: Kind
    sensitivity: Sensitivity


class TransitionView(Answer):
    """A transition."""

    sources: Annotated[list[str], Field(alias="from")]
    to: str


class LifecycleView(Answer):
    """A lifecycle."""

    statuses: list[str]
    transitions: dict[str, TransitionView]


class ContentTypeView(Answer):
    """A content type."""

    name: str
    fields: dict[str, FieldView]
    lifecycle: LifecycleView
    created_at: Time
    updated_at: Time


def view(kept: Kept) -> ContentTypeView:
    """The content type as answers show it, with every default spelt out."""
    fields, lifecycle = kept.definition.fields, kept.definition.lifecycle
    return ContentTypeView(
        name=kept.name,
        fields={
            name: FieldView(type=one.type, sensitivity=one.sensitivity)
            for name, one in fields.items()
        },
        lifecycle=LifecycleView(
            statuses=list(lifecycle.statuses),
            transitions={
                name: TransitionView(sources=list(one.from_), to=one.to)
                for name, one in lifecycle.transitions.items()
            },
        ),
        created_at=kept.created_at,
        updated_at=kept.updated_at,
    )


@router.put(
    NAMED,
    dependencies=[needs("manage_entries")],
    openapi_extra=takes(ContentTypeBody),
    responses={201: {"model": ContentTypeView, "description": "It is new"}},
)
async def save_content_type(
    name: Name, document: Document, conn: Database, call: Call, response: Response
) -> ContentTypeView:
    """Make a content type, or replace what it declares."""
    definition = parse_content_type(document)
    kept, is_new = await content_types.save(conn, call.tenant, name, definition, call.by)
    if is_new:
        response.status_code = status.HTTP_201_CREATED
    return view(kept)


@router.get("/content-types", dependencies=[needs("read_entries")])
async def list_content_types(conn: Database, tenant: Tenant, part: Part) -> Page[ContentTypeView]:
    """The content types, by name."""
    rows, total = await content_types.page(conn, tenant, part.span)
    return Page[ContentTypeView].model_validate(page_of(rows, total, part, view))


@router.get(NAMED, dependencies=[needs("read_entries")])
async def read_content_type(name: Name, conn: Database, tenant: Tenant) -> ContentTypeView:
    """One content type."""
    return view(found(await content_types.one(conn, tenant, name), "content type"))


@router.delete(
    NAMED, dependencies=[needs("manage_entries")], status_code=status.HTTP_204_NO_CONTENT
)
async def delete_content_type(name: Name, conn: Database, call: Call) -> None:
    """Take a content type away, once it has no entries."""
    await content_types.delete(conn, call.tenant, name, call.by)
