"""The common shape of what comes in and what goes out: camelCase, and times that end in Z."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)
from pydantic.alias_generators import to_camel

from procession.api.deps import Paging
from procession.engine.access import Actor
from procession.engine.errors import Concern
from procession.engine.findings import told_concerns
from procession.engine.names import ENTRY_ID_RULE, NAME_RULE, is_entry_id, is_name

RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
Row = TypeVar("Row")
Item = TypeVar("Item")


class Received(BaseModel):
    """A body. What it does not know it ignores; a value of another type is a fault, never cast."""

    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="ignore", frozen=True)


class Answer(BaseModel):
    """What a route answers."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid"
    )


def wire_time(moment: datetime) -> str:
    """RFC 3339 in UTC, with all six digits."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


Time = Annotated[
    datetime,
    PlainSerializer(wire_time, return_type=str),
    Field(json_schema_extra={"format": "date-time"}),
]


def _instant(value: object) -> datetime:
    """A time in UTC. One whose offset leads out of the years that there are is none."""
    if isinstance(value, str) and RFC_3339.fullmatch(value):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
    raise ValueError("must be a time as in RFC 3339, with its zone")


ReceivedTime = Annotated[datetime, BeforeValidator(_instant)]


def _entry_id(text: str) -> str:
    if not is_entry_id(text):
        raise ValueError(ENTRY_ID_RULE)
    return text


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(NAME_RULE)
    return text


EntryIdText = Annotated[str, AfterValidator(_entry_id)]
NameText = Annotated[str, AfterValidator(_name)]


class Who(Answer):
    """An actor."""

    kind: str
    id: str
    name: str


def who(actor: Actor) -> Who:
    """The actor, without what is only for templates."""
    return Who(kind=actor.kind, id=actor.id, name=actor.name)


class Warned(Answer):
    """What was saved all the same, and may not be what was meant."""

    field: str
    message: str


def warned(concerns: Sequence[Concern]) -> list[Warned]:
    return [Warned(field=one.field, message=one.message) for one in told_concerns(concerns)]


class Page(Answer, Generic[Item]):
    """One part of a list."""

    items: list[Item]
    page: int
    page_size: int
    total_items: int
    total_pages: int
    has_next_page: bool
    has_previous_page: bool


def page_of(
    rows: Sequence[Row], total: int, part: Paging, make: Callable[[Row], Item]
) -> dict[str, object]:
    """The fields of a page, for `Page[…].model_validate` and for lists that say more."""
    pages = -(-total // part.page_size)
    return {
        "items": [make(one) for one in rows],
        "page": part.page,
        "page_size": part.page_size,
        "total_items": total,
        "total_pages": pages,
        "has_next_page": part.page < pages,
        "has_previous_page": part.page > 1,
    }
