"""A record of the application, what may be in it, and what a change of it fires."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import cast

from msgspec import Struct

from procession.engine.access import Actor
from procession.engine.content_type import PUBLISHED, ContentType, Field, Kind, Sensitivity
from procession.engine.errors import Concern, Fault
from procession.engine.names import is_entry_id, is_name
from procession.engine.values import amount, instant, is_number, same

CREATED, UPDATED, DELETED = "Created", "Updated", "Deleted"
UNPUBLISHED = "Unpublished"
MANUAL = "Manual"  # no event: the trigger of a run that a person started
TRANSITION = "transition:"  # before the name of a transition, as the content type declares it


Reference = tuple[str, str]  # to an entry: its content type and id


class Entry(Struct, frozen=True, kw_only=True):
    id: str
    content_type: str
    status: str
    data: dict[str, object]
    created_at: datetime
    updated_at: datetime
    created_by: Actor
    updated_by: Actor
    sensitivity: Sensitivity = Sensitivity.PUBLIC
    version: int = 1


class Event(Struct, frozen=True):
    """What fired a run: who did it, when, and by which transition if it was one."""

    actor: Actor | None = None
    at: datetime | None = None
    transition: str | None = None


class Stub(Struct, frozen=True, kw_only=True):
    """All that is left of a deleted entry."""

    id: str
    content_type: str


def events_of(
    before: Entry | None, after: Entry | None, transition: str | None = None
) -> tuple[str, ...]:
    """The events of one write, in the order they fire; none for one that changes nothing.

    A transition that was performed is named as its content type declares it, and is an event even
    where it leads back to the same status.
    """
    if after is None:
        return () if before is None else (DELETED,)
    was_published = before is not None and before.status == PUBLISHED
    is_published = after.status == PUBLISHED
    events = {
        CREATED: before is None,
        UPDATED: before is not None and not same(before.data, after.data),
        PUBLISHED: is_published and not was_published,
        UNPUBLISHED: was_published and not is_published,
        f"{TRANSITION}{transition}": transition is not None,
    }
    return tuple(event for event, fires in events.items() if fires)


def is_changed(before: Entry, after: Entry) -> bool:
    """Whether the write raises the version."""
    return (before.status, before.sensitivity) != (after.status, after.sensitivity) or not same(
        before.data, after.data
    )


def check_values(
    content_type: ContentType, data: Mapping[str, object]
) -> tuple[list[Fault], list[Concern]]:
    """What does not fit its field, and what no field is declared for."""
    faults: list[Fault] = []
    concerns: list[Concern] = []
    for name, value in data.items():
        field = content_type.fields.get(name)
        if field is None:
            concerns.append(
                Concern(f"data.{name}", "is not declared by the content type and counts as Hidden")
            )
        elif not fits(field, value):
            faults.append(Fault(f"data.{name}", RULES[field.type]))
    return faults, concerns


RULES: Mapping[Kind, str] = {
    Kind.TEXT: "must be text",
    Kind.NUMBER: "must be a number",
    Kind.BOOLEAN: "must be true or false",
    Kind.DATE: "must be an ISO date or time",
    Kind.MONEY: "must be a number or a decimal text",
    Kind.JSON: "must be JSON",
    Kind.REFERENCE: "must be {contentType, id}, or a list of such",
}


def fits(field: Field, value: object) -> bool:
    """Whether a field takes the value; null always fits."""
    return value is None or _FITS[field.type](value)


def references_of(value: object) -> tuple[Reference, ...] | None:
    """The entries that a value refers to, one or several; None when it is no reference."""
    several = cast("list[object]", value) if isinstance(value, list) else [value]
    found = [reference_of(one) for one in several]
    return None if None in found else tuple(one for one in found if one)


def reference_of(value: object) -> Reference | None:
    """The content type and id that a value refers to, if it is a reference."""
    match value:
        case {"contentType": str(content_type), "id": str(id_)}:
            return (content_type, id_) if is_name(content_type) and is_entry_id(id_) else None
        case _:
            return None


_FITS: Mapping[Kind, Callable[[object], bool]] = {
    Kind.TEXT: lambda value: isinstance(value, str),
    Kind.NUMBER: is_number,
    Kind.BOOLEAN: lambda value: isinstance(value, bool),
    Kind.DATE: lambda value: isinstance(value, str) and instant(value) is not None,
    Kind.MONEY: lambda value: amount(value) is not None,
    Kind.JSON: lambda _: True,
    Kind.REFERENCE: lambda value: references_of(value) is not None,
}


def may_read(sensitivity: Sensitivity, capabilities: Collection[str]) -> bool:
    """Whether a holder of these may read an entry of this sensitivity."""
    if sensitivity is Sensitivity.PUBLIC and "read_entries" in capabilities:
        return True
    return "manage_entries" in capabilities


def readable_data(
    content_type: ContentType | None, data: Mapping[str, object], capabilities: Collection[str]
) -> dict[str, object]:
    """The fields that a holder of these may read; a Hidden one, or an undeclared, nobody may."""
    return {
        name: value
        for name, value in data.items()
        if content_type is not None
        and (sensitivity := content_type.sensitivity_of(name)) is not Sensitivity.HIDDEN
        and may_read(sensitivity, capabilities)
    }


def public_data(content_type: ContentType | None, entry: Entry) -> dict[str, object]:
    """The fields that may leave: the Public ones of a Public entry whose type is defined."""
    if content_type is None or entry.sensitivity is not Sensitivity.PUBLIC:
        return {}
    return {
        name: value
        for name, value in entry.data.items()
        if content_type.sensitivity_of(name) is Sensitivity.PUBLIC
    }
