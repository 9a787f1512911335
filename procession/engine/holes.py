"""Filling the holes of a stored request: only what may leave, encoded for where it lands.

Unlike a parameter of a workflow, a request is written by somebody who may not know the content
types. So a hole that gives nothing, or that reads what is not public, is an error and no text.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from urllib.parse import quote

from procession.engine.content_type import Sensitivity
from procession.engine.entry import Entry
from procession.engine.formats import Misfit, between, show
from procession.engine.placeholders import Part, Span, Value, parse
from procession.engine.scope import Names, Unread, read
from procession.engine.templates import LONGEST, RenderError, TooLongError
from procession.engine.values import text_of

OPEN = frozenset({"id", "contentType", "status", "createdAt", "updatedAt"})  # beside public fields
_IN_STRINGS = re.compile(r'\\.|"', re.DOTALL)


class HoleError(RenderError):
    """A hole that cannot be filled."""

    def __init__(self, written: str) -> None:
        super().__init__(written)
        self.written = written


class Place(Enum):
    """What the holes are in."""

    PATH = auto()  # percent-encoded
    FORM = auto()  # the same
    JSON = auto()  # inside quotes escaped, elsewhere a JSON value
    TEXT = auto()  # as it is


def fill(text: str, names: Names, place: Place) -> str:
    """The text with its holes filled; raises HoleError, or TooLongError."""
    filled: list[str] = []
    length = 0
    quoted = Quoted()
    for part in parse(text):
        if isinstance(part, str):
            piece = part
            if place is Place.JSON:
                quoted.read(part)
        else:
            piece = ENCODED[place](value_of(part, names), quoted, part.written)
        length += len(piece)
        if length > LONGEST:
            raise TooLongError
        filled.append(piece)
    return "".join(filled)


class Quoted:
    """Whether the walk over a JSON text is inside a string."""

    def __init__(self) -> None:
        self.inside = False
        self.is_escaping = False  # the text so far ends in half an escape

    def read(self, text: str) -> None:
        end = 0
        for sign in _IN_STRINGS.finditer(text):
            end = sign.end()
            if sign.group() == '"':
                self.inside = not self.inside
        self.is_escaping = self.inside and text[end:].endswith("\\")


def value_of(part: Part, names: Names) -> object:
    """What stands in the place of a hole; raises HoleError."""
    assert not isinstance(part, str)
    try:
        match part:
            case Value(_, name, None):
                return public(names, name)
            case Value(_, name, str(form), arguments):
                zone, currency = names.time_zone, names.currency
                value = public(names, name)
                return show(form, arguments, value, time_zone=zone, currency=currency)
            case Span(_, unit, start, end):
                return between(unit, public(names, start), public(names, end))
            case _:
                raise HoleError(part.written)
    except (Unread, Misfit):
        raise HoleError(part.written) from None


def public(names: Names, name: str) -> object:
    """The value of a name, where everybody may have it; raises Unread."""
    if name in OPEN:
        return read(names, name)
    entry, content_type = names.entry, names.content_type
    owner, _, field = name.partition(".")
    if (
        owner != "data"
        or not isinstance(entry, Entry)
        or content_type is None
        or entry.sensitivity is not Sensitivity.PUBLIC
        or content_type.sensitivity_of(field) is not Sensitivity.PUBLIC
    ):
        raise Unread
    return read(names, name)


def _percent(value: object, _: Quoted, __: str) -> str:
    return quote(text_of(value), safe="", errors="replace")


def _plain(value: object, _: Quoted, __: str) -> str:
    return text_of(value)


def _as_json(value: object, quoted: Quoted, written: str) -> str:
    if quoted.is_escaping:
        raise HoleError(written)
    text = text_of(value)
    if quoted.inside:
        return json.dumps(text)[1:-1]
    if value is None:
        return "null"
    return json.dumps(text) if isinstance(value, str | datetime) else text


ENCODED: Mapping[Place, Callable[[object, Quoted, str], str]] = {
    Place.PATH: _percent,
    Place.FORM: _percent,
    Place.JSON: _as_json,
    Place.TEXT: _plain,
}
