"""What the names in a template mean for one attempt.

A name that gives nothing raises Unread, and its placeholder stays as it is written; a name whose
value is null gives None, which is shown as empty text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from procession.engine.access import Actor
from procession.engine.content_type import ContentType, Sensitivity
from procession.engine.entry import Entry, Reference, Stub, reference_of, references_of

MOST_ITEMS = 50  # of a list of references

_OUTPUT = re.compile(r"actions\.(0|[1-9]\d{0,2})\.(\w{1,64})", re.ASCII)


class Unread(Exception):  # noqa: N818 - an answer within the walk, and nobody's error
    """The name gives nothing here."""


@dataclass(slots=True)
class Lists:
    """The lists of references that were gone over: a text may do so thousands of times."""

    read: dict[str, tuple[Reference, ...] | None] = field(
        default_factory=dict[str, tuple[Reference, ...] | None]
    )
    is_told: bool = False  # that one of them is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Everything that a template of one attempt may read."""

    entry: Entry | Stub
    content_type: ContentType | None = None  # of the entry
    transition: str | None = None  # the name, when the trigger is one
    transition_at: datetime | None = None
    transition_by: Actor | None = None
    time_zone: str = "UTC"
    currency: str = "USD"
    site_url: str | None = None
    console_url: str | None = None
    run_id: str | None = None
    # the public data of the referenced entries, as `references_in` asked for them
    references: Mapping[Reference, Mapping[str, object]] = field(
        default_factory=dict[Reference, Mapping[str, object]]
    )
    # by ordinal; None where captured outputs are not read and their placeholders stay as written
    outputs: Mapping[int, Mapping[str, str]] | None = None
    lists: Lists = field(default_factory=Lists, init=False, compare=False, repr=False)
    # asked at each item of a list; what it raises ends the walk, which may take seconds
    go_on: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)


def read(names: Names, name: str, item: Reference | None = None) -> object:
    """The value of a name. `item` is what the each around it is at."""
    owner, dot, far = name.partition(".")
    # some are read a million times
    if item is not None and dot and owner == "item" and "." not in far:
        return _of_item(names, item, far)
    match name.split("."):
        case ["data", field_name]:
            return _own(names, field_name)
        case ["data", field_name, far]:
            value = _own(names, field_name)
            reference = reference_of(value)
            if reference is None and value is not None:
                raise Unread
            return None if reference is None else far_value(names, reference, far)
        case ["links", page]:
            return _link(names, page)
        case ["transition", *rest]:
            return _of_transition(names, ".".join(rest))
        case _:
            return _of_entry(names.entry, name)


def output_of(name: str) -> tuple[int, str] | None:
    """The ordinal and the output that a name refers to, when it is a reference to one."""
    found = _OUTPUT.fullmatch(name) if name.startswith("actions.") else None
    return (int(found[1]), found[2]) if found else None


def items_of(names: Names, name: str) -> tuple[Reference, ...]:
    """The references that an each goes over, and one more where it is cut.

    A list is read once, however many blocks go over it.
    """
    known = names.lists.read
    if name not in known:
        known[name] = _references(names, name)
    references = known[name]
    if references is None:
        raise Unread
    return references


def _references(names: Names, name: str) -> tuple[Reference, ...] | None:
    if not name.startswith("data.") or name.count(".") != 1:
        return None
    try:
        value = read(names, name)
    except Unread:
        return None
    if value is None:
        return ()
    found = references_of(cast("list[object]", value)) if isinstance(value, list) else None
    return found and found[: MOST_ITEMS + 1]


def hop(names: Names, name: str) -> Reference | None:
    """The entry that must be read before this name can be."""
    match name.split("."):
        case ["data", field_name, _]:
            return reference_of(_own(names, field_name))
        case _:
            return None


def far_value(names: Names, reference: Reference, field_name: str) -> object:
    """A field of another entry: nothing but what is Public there."""
    return names.references.get(reference, {}).get(field_name)


def _own(names: Names, field_name: str) -> object:
    entry, content_type = names.entry, names.content_type
    if (
        isinstance(entry, Stub)
        or content_type is None
        or entry.sensitivity is Sensitivity.HIDDEN
        or content_type.sensitivity_of(field_name) is Sensitivity.HIDDEN
        or field_name not in entry.data
    ):
        raise Unread
    return entry.data[field_name]


def _of_item(names: Names, item: Reference, field_name: str) -> object:
    match field_name:
        case "contentType":
            return item[0]
        case "id":
            return item[1]
        case _:
            return far_value(names, item, field_name)


ENTRY_NAMES = (
    *("id", "contentType", "status", "createdAt", "updatedAt"),
    *("createdBy.name", "createdBy.email"),
)


def _of_entry(entry: Entry | Stub, name: str) -> object:
    if name not in ENTRY_NAMES:
        raise Unread
    known: dict[str, object] = {"id": entry.id, "contentType": entry.content_type}
    if isinstance(entry, Entry):
        known |= {
            "status": entry.status,
            "createdAt": entry.created_at,
            "updatedAt": entry.updated_at,
            "createdBy.name": entry.created_by.name,
            "createdBy.email": entry.created_by.email,
        }
    return known.get(name)


TRANSITION_NAMES = ("name", "at", "by.name", "by.email")


def _of_transition(names: Names, name: str) -> object:
    if name not in TRANSITION_NAMES:
        raise Unread
    if names.transition is None:
        return None
    by = names.transition_by
    return {
        "name": names.transition,
        "at": names.transition_at,
        "by.name": by and by.name,
        "by.email": by and by.email,
    }[name]


LINKS = ("console", "run", "entry")


def _link(names: Names, page: str) -> object:
    if page not in LINKS:
        raise Unread
    if names.console_url is None:
        return None
    base = names.console_url.rstrip("/")
    return {
        "console": base,
        "run": f"{base}/runs/{names.run_id or ''}",
        "entry": f"{base}/entries/{names.entry.content_type}/{names.entry.id}",
    }[page]
