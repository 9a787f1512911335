"""Putting values into the texts that a workflow holds.

One walk over what the workflow's author wrote. What is put in is never read again, whatever it
looks like, and is encoded for the place where it lands. What gives nothing stays as it is written.
"""

import html
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from urllib.parse import quote

from procession.engine.entry import Reference
from procession.engine.formats import Misfit, between, show
from procession.engine.placeholders import (
    Each,
    Part,
    Site,
    Span,
    Unreadable,
    Value,
    parse,
    placeholders,
)
from procession.engine.scope import (
    MOST_ITEMS,
    Names,
    Unread,
    hop,
    items_of,
    output_of,
    read,
)
from procession.engine.values import text_of

logger = logging.getLogger(__name__)

LONGEST = 1_048_576

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class RenderError(Exception):
    """The text cannot be rendered."""


class TooLongError(RenderError):
    """The rendered text is too long."""


class MissingOutputError(RenderError):
    """A captured output that is referenced is not there."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder)
        self.placeholder = placeholder


class Encoding(Enum):
    """What is done to a value so that it stays a value where it lands."""

    PLAIN = auto()
    HTML = auto()
    LINE = auto()  # line breaks become spaces
    URL = auto()  # percent-encoded, but at the very start of the text


_ENCODINGS: Mapping[tuple[str, str], Encoding | None] = {
    ("Email", "Body"): Encoding.HTML,
    ("Email", "To"): Encoding.LINE,
    ("Email", "Subject"): Encoding.LINE,
    ("Email", "ReplyTo"): Encoding.LINE,
    ("Webhook", "Url"): Encoding.URL,
    ("Request", "Request"): None,
    ("Conditional", "Condition"): None,
    ("Conditional", "ThenActions"): None,
    ("Conditional", "ElseActions"): None,
}


def encoding_for(action_type: str, parameter: str) -> Encoding | None:
    """How values land in this parameter; None for one that is not rendered.

    Credentials are not rendered either: that is the catalogue's to say.
    """
    return _ENCODINGS.get((action_type, parameter), Encoding.PLAIN)


def render(text: str, names: Names, *, encoding: Encoding = Encoding.PLAIN) -> str:
    """The text with its values. Raises RenderError: too long, or a captured output is missing."""
    shown: list[str] = []
    length = 0
    for piece in _pieces(parse(text), names, encoding, None):
        length += len(piece)
        if length > LONGEST:
            raise TooLongError
        shown.append(piece)
    return "".join(shown)


def _pieces(
    parts: tuple[Part, ...], names: Names, encoding: Encoding, item: Reference | None
) -> Iterator[str]:
    known: dict[str, str] = {}  # what is written alike is shown alike, but for the very start
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Each):
            yield from _each(part, names, encoding)
        elif isinstance(part, Value | Site) and part.at_start:
            yield _piece(part, names, encoding, item)
        else:
            if part.written not in known:
                known[part.written] = _piece(part, names, encoding, item)
            yield known[part.written]


def _piece(
    part: Value | Span | Site | Unreadable,
    names: Names,
    encoding: Encoding,
    item: Reference | None,
) -> str:
    try:
        return _encoded(_shown(part, names, item), part, encoding)
    except (Unread, Misfit):
        return part.written


def _each(part: Each, names: Names, encoding: Encoding) -> Iterator[str]:
    try:
        items = items_of(names, part.name)
    except Unread:
        yield part.written
        return
    if len(items) > MOST_ITEMS and not names.lists.is_told:
        names.lists.is_told = True
        logger.warning("A template's list of references is cut to its first %d.", MOST_ITEMS)
    if not part.body:
        return
    for item in items[:MOST_ITEMS]:
        names.go_on()
        yield from _pieces(part.body, names, encoding, item)


def _shown(part: Value | Span | Site | Unreadable, names: Names, item: Reference | None) -> str:
    match part:
        case Value(_, name, None) if output := output_of(name):
            return _captured(part.written, output, names)
        case Value(_, name, None):
            return text_of(read(names, name, item))
        case Value(_, name, str(form), arguments):
            value = read(names, name, item)
            zone, currency = names.time_zone, names.currency
            return show(form, arguments, value, time_zone=zone, currency=currency)
        case Span(_, unit, start, end):
            return between(unit, read(names, start, item), read(names, end, item))
        case Site(_, path):
            site = names.site_url
            return f"{site.rstrip('/')}/{path.lstrip('/')}" if site else ""
        case _:
            raise Unread


def _captured(written: str, output: tuple[int, str], names: Names) -> str:
    if names.outputs is None:
        raise Unread
    ordinal, name = output
    value = names.outputs.get(ordinal, {}).get(name)
    if value is None:
        raise MissingOutputError(written)
    return value


def _encoded(text: str, part: Value | Span | Site | Unreadable, encoding: Encoding) -> str:
    match encoding:
        case Encoding.PLAIN:
            return text
        case Encoding.HTML:
            return html.escape(text)
        case Encoding.LINE:
            return _LINE_BREAK.sub(" ", text)
        case Encoding.URL:
            at_start = isinstance(part, Value | Site) and part.at_start
            return text if at_start else quote(text, safe="", errors="replace")


def references_in(text: str, names: Names) -> frozenset[Reference]:
    """The entries whose public data the text needs, so that they can be read beforehand."""
    found: set[Reference] = set()
    for each, name in {(one.each, one.name or "") for one in placeholders(text)}:
        with suppress(Unread):
            if each:
                found.update(items_of(names, name)[:MOST_ITEMS])
            elif reference := hop(names, name):
                found.add(reference)
    return frozenset(found)


def far_fields(text: str) -> frozenset[str]:
    """The fields of other entries that the text reads."""
    names = ((one.name or "").split(".") for one in placeholders(text))
    return frozenset(
        name[-1]
        for name in names
        if (name[0] == "data" and len(name) == 3) or (name[0] == "item" and len(name) == 2)  # noqa: PLR2004
    )
