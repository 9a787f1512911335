"""Entries: the application's records. A change answers with what it fired."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Response
from starlette.status import HTTP_201_CREATED

from procession.api import things
from procession.api.body import CONDITIONAL, CONDITIONAL_OR_NEW, Document, takes
from procession.api.deps import Call, Caller, Database, Part
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, Received, Time, Warned, Who, page_of, warned, who
from procession.engine.change import Key
from procession.engine.content_type import ContentType, Sensitivity
from procession.engine.entry import Entry, may_read, readable_data
from procession.engine.errors import Fault, NotFoundError, ValidationFailedError
from procession.engine.names import told
from procession.queue import entries, entry_reads
from procession.queue.entries import Saved
from procession.queue.entry_reads import Wanted

router = api_router("entries")

ContentTypeName = Annotated[
    str, Path(alias="contentType", pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$", examples=["Article"])
]
ENTRY_ID = r"^[A-Za-z0-9._:-]{1,200}$"
EntryId = Annotated[str, Path(alias="id", pattern=ENTRY_ID, examples=["a-17"])]
# As described, without what is refused below; a pattern that is validated by cannot look ahead.
NO_STEP = {"pattern": r"^(\.{0,2}[A-Za-z0-9_:-]|\.{3})[A-Za-z0-9._:-]*$", "maxLength": 200}
NewEntryId = Annotated[
    str, Path(alias="id", pattern=ENTRY_ID, examples=["a-17"], json_schema_extra=NO_STEP)
]
TransitionName = Annotated[
    str, Path(alias="name", pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$", examples=["Approve"])
]
STEPS = (".", "..")
ENTRY = "/entries/{contentType}/{id}"


def _key(caller: Caller, content_type: ContentTypeName, entry_id: EntryId) -> Key:
    return Key(caller.tenant, content_type, entry_id)


Asked = Annotated[Key, Depends(_key)]


def _key_to_save(caller: Caller, content_type: ContentTypeName, entry_id: NewEntryId) -> Key:
    """As asked for, but for what clients take for a step in a path: it could not be asked for."""
    if entry_id in STEPS:
        raise ValidationFailedError([Fault("id", "must be neither . nor ..")])
    return Key(caller.tenant, content_type, entry_id)


ToSave = Annotated[Key, Depends(_key_to_save)]


class EntryBody(Received):
    """What an entry is to be. Data is replaced whole; the others are kept when left out."""

    data: dict[str, object]
    status: str | None = None
    sensitivity: Sensitivity | None = None


class EntryView(Answer):
    """An entry, with the fields that the caller may read."""

    id: str
    content_type: str
    status: str
    sensitivity: Sensitivity
    data: dict[str, object]
    version: int
    created_at: Time
    updated_at: Time
    created_by: Who
    updated_by: Who


class FiredView(Answer):
    """The events of a change, and the runs that they queued."""

    events: list[str]
    run_ids: list[UUID]


class SavedView(FiredView):
    """An entry after a change."""

    entry: EntryView
    version: int
    warnings: list[Warned]


def view(entry: Entry, content_type: ContentType, caller: Caller) -> EntryView:
    """The entry as this caller may see it."""
    return EntryView(
        id=entry.id,
        content_type=entry.content_type,
        status=entry.status,
        sensitivity=entry.sensitivity,
        data=readable_data(content_type, entry.data, caller.capabilities),
        version=entry.version,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        created_by=who(entry.created_by),
        updated_by=who(entry.updated_by),
    )


def etag(entry: Entry) -> str:
    """The version, as If-Match takes it."""
    return f'"{entry.version}"'


def _saved(saved: Saved, caller: Caller, response: Response) -> SavedView:
    response.headers["ETag"] = etag(saved.entry)
    return SavedView(
        entry=view(saved.entry, saved.content_type, caller),
        version=saved.entry.version,
        events=list(saved.fired.events),
        run_ids=list(saved.fired.run_ids),
        warnings=warned(saved.warnings),
    )


@router.put(
    ENTRY,
    dependencies=[needs("manage_entries")],
    openapi_extra=takes(EntryBody) | CONDITIONAL_OR_NEW,
    responses={201: {"model": SavedView, "description": "It is new"}},
)
async def save_entry(
    key: ToSave, document: Document, conn: Database, call: Call, response: Response
) -> SavedView:
    """Create an entry or replace it, and queue the runs that this fires."""
    saved = await entries.put(conn, key, document, call.precondition, call.origin)
    if saved.is_new:
        response.status_code = HTTP_201_CREATED
    return _saved(saved, call.caller, response)


@router.post(
    f"{ENTRY}/transitions/{{name}}",
    dependencies=[needs("manage_entries", things.transition)],
    openapi_extra=CONDITIONAL,
)
async def perform_transition(
    key: Asked, name: TransitionName, conn: Database, call: Call, response: Response
) -> SavedView:
    """Perform a declared transition of an entry, and queue the runs that this fires."""
    saved = await entries.move(conn, key, name, call.precondition, call.origin)
    return _saved(saved, call.caller, response)


@router.delete(ENTRY, dependencies=[needs("manage_entries")], openapi_extra=CONDITIONAL)
async def delete_entry(key: Asked, conn: Database, call: Call) -> FiredView:
    """Take an entry away, and queue the runs that this fires."""
    fired = await entries.delete(conn, key, call.precondition, call.origin)
    return FiredView(events=list(fired.events), run_ids=list(fired.run_ids))


@router.get(ENTRY, dependencies=[needs("read_entries")])
async def read_entry(key: Asked, conn: Database, caller: Caller, response: Response) -> EntryView:
    """One entry, if the caller may read it."""
    found = await entry_reads.one(conn, key)
    if found is None or not may_read(found[0].sensitivity, caller.capabilities):
        raise NotFoundError("entry")
    response.headers["ETag"] = etag(found[0])
    return view(*found, caller)


@router.get("/entries/{contentType}", dependencies=[needs("read_entries", things.content_type)])
async def list_entries(
    content_type: ContentTypeName,
    conn: Database,
    caller: Caller,
    part: Part,
    status: Annotated[str | None, Query()] = None,
) -> Page[EntryView]:
    """The entries of a content type that the caller may read, by id."""
    readable = [one for one in Sensitivity if may_read(one, caller.capabilities)]
    wanted = Wanted(caller.tenant, content_type, readable, status)
    listed = await entry_reads.page(conn, wanted, part.span)
    if listed is None:
        raise NotFoundError("content type")
    declared = listed.content_type.lifecycle.statuses
    if status is not None and status.lower() not in (one.lower() for one in declared):
        raise ValidationFailedError([Fault("status", f"must be one of {told(declared)}")])
    return Page[EntryView].model_validate(
        page_of(
            listed.entries, listed.total, part, lambda one: view(one, listed.content_type, caller)
        )
    )
