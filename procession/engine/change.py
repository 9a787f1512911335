"""A write of an entry: what a body asks for, and the entry that it makes.

What the body leaves out is kept from before; data is replaced whole.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from procession.engine.access import Actor
from procession.engine.content_type import ContentType, Sensitivity, Transition
from procession.engine.entry import Entry, check_values, is_changed
from procession.engine.errors import (
    Concern,
    ConflictError,
    Fault,
    NotFoundError,
    ValidationFailedError,
)
from procession.engine.names import told
from procession.engine.outcome import Failed
from procession.engine.validation import capped


class Key(Struct, frozen=True):
    """Which entry, of whom."""

    tenant: str
    content_type: str
    id: str


class Making(Struct, frozen=True):
    """Who makes the change and when, of an entry of which content type."""

    actor: Actor
    at: datetime
    content_type: ContentType


# What to make of what is there: who changes it, when and of which content type (None when that is
# not defined), and the entry (None when there is none).
Decide = Callable[[Making | None, Entry | None], Entry | Failed]


class Change(Struct, frozen=True, kw_only=True):
    """What a body asks for; None keeps what is there."""

    data: dict[str, object]
    status: str | None = None
    sensitivity: Sensitivity | None = None
    warnings: tuple[Concern, ...] = ()


def read_change(body: object, content_type: ContentType) -> Change:
    """The change that a body asks for; raises ValidationFailedError with every fault of it."""
    if not isinstance(body, dict):
        raise ValidationFailedError([Fault("body", "must be an object")])
    asked = cast("Mapping[str, object]", body)
    faults = [*_status(asked, content_type), *_sensitivity(asked)]
    concerns: list[Concern] = []
    data = asked.get("data")
    if isinstance(data, dict):
        wrong, concerns = check_values(content_type, cast("Mapping[str, object]", data))
        faults += wrong
    else:
        faults.append(Fault("data", "is required, as an object"))
    if faults:
        raise ValidationFailedError(faults)
    sensitivity = asked.get("sensitivity")
    return Change(
        data=cast("dict[str, object]", data),
        status=cast("str | None", asked.get("status")),
        sensitivity=None if sensitivity is None else Sensitivity(cast("str", sensitivity)),
        warnings=capped(tuple(concerns)),
    )


def _status(asked: Mapping[str, object], content_type: ContentType) -> list[Fault]:
    statuses = content_type.lifecycle.statuses
    if asked.get("status") in (None, *statuses):
        return []
    return [Fault("status", f"must be one of {told(statuses)}")]


def _sensitivity(asked: Mapping[str, object]) -> list[Fault]:
    if asked.get("sensitivity") in (None, *Sensitivity):
        return []
    return [Fault("sensitivity", f"must be one of {', '.join(Sensitivity)}")]


def changed(before: Entry | None, key: Key, change: Change, made: Making) -> Entry:
    """The entry as this change makes it; the very one that is there, if nothing changes."""
    if before is None:
        return Entry(
            id=key.id,
            content_type=key.content_type,
            status=change.status or made.content_type.lifecycle.statuses[0],
            sensitivity=change.sensitivity or Sensitivity.PUBLIC,
            data=change.data,
            created_at=made.at,
            updated_at=made.at,
            created_by=made.actor,
            updated_by=made.actor,
        )
    after = replace(
        before,
        status=change.status or before.status,
        sensitivity=change.sensitivity or before.sensitivity,
        data=change.data,
    )
    return _raised(after, made) if is_changed(before, after) else before


def transition_of(entry: Entry, name: str, content_type: ContentType) -> tuple[str, Transition]:
    """The transition that is called so, and its name as it is declared."""
    found = content_type.transition(name)
    if found is None:
        there = told(content_type.lifecycle.transitions) or "none"
        detail = f"There is no transition {name}. {entry.content_type} declares {there}."
        raise NotFoundError("transition", detail)
    return found


def moved(before: Entry, name: str, made: Making) -> tuple[Entry, str]:
    """The entry after this transition, and the transition's name as it is declared.

    One that leads back to the same status is a change too, since it fires.
    """
    declared, transition = transition_of(before, name, made.content_type)
    if before.status not in transition.from_:
        sources = told(transition.from_)
        detail = f"The entry is {before.status}; {declared} starts from {sources}."
        raise ConflictError("transition-not-allowed", detail, {"from": list(transition.from_)})
    return _raised(replace(before, status=transition.to), made), declared


def _raised(entry: Entry, made: Making) -> Entry:
    return replace(entry, version=entry.version + 1, updated_at=made.at, updated_by=made.actor)
