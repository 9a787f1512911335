"""The parts of a template: what stands between double braces, and the text around it.

The walk is one regular expression that reads each character at most twice, so its time is linear
in the length. Of two openers the inner one counts; what is no form stays text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BRACES = re.compile(r"\{\{(?!\{)((?:(?!\{\{|\}\}).){1,256}?)\}\}", re.DOTALL)
_NAME = r"[A-Za-z]\w{0,63}(?:\.\w{1,64}){0,3}"
_VALUE = re.compile(rf'\s*({_NAME})\s*(?:\|\s*([a-z]+)\s*((?:"[^"]*"\s*)*))?', re.ASCII)
_SPAN = re.compile(rf"\s*(duration|hours)\s+({_NAME})\s+({_NAME})\s*", re.ASCII)
_SITE = re.compile(r'\s*links\.site\s*"([^"]*)"\s*', re.ASCII)
_EACH = re.compile(rf"\s*#each\s+({_NAME})\s*", re.ASCII)
_END = re.compile(r"\s*/each\s*", re.ASCII)
_ARGUMENT = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Value:
    """`{{name}}` or `{{name | format "argument"}}`."""

    written: str
    name: str
    format: str | None = None  # as it is written, with its arguments
    arguments: tuple[str, ...] = ()
    at_start: bool = False  # of the whole text


@dataclass(frozen=True, slots=True)
class Span:
    """`{{duration A B}}` or `{{hours A B}}`."""

    written: str
    unit: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Site:
    """`{{links.site "path"}}`."""

    written: str
    path: str
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class Each:
    """`{{#each name}} … {{/each}}`, with what is between."""

    written: str
    name: str
    body: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Braces around what has none of the forms."""

    written: str


Part = str | Value | Span | Site | Each | Unreadable


@dataclass(frozen=True, slots=True)
class _Opener:
    """An each whose end has not come yet, and where its body began."""

    name: str
    place: int
    parts: int


def parse(text: str) -> tuple[Part, ...]:
    """The parts of the text, which together are all of it."""
    parts: list[Part] = []
    opener: _Opener | None = None
    place = 0
    for braces in _BRACES.finditer(text):
        if braces.start() > place:
            parts.append(text[place : braces.start()])
        place = braces.end()
        if found := _EACH.fullmatch(braces[1]):
            opener = _Opener(found[1], braces.start(), len(parts))
            parts.append(Unreadable(braces[0]))
        elif opener and _END.fullmatch(braces[1]):
            body = tuple(parts[opener.parts + 1 :])
            del parts[opener.parts :]
            parts.append(Each(text[opener.place : place], opener.name, body))
            opener = None
        else:
            parts.append(_form(braces[0], braces[1], at_start=braces.start() == 0))
    if place < len(text):
        parts.append(text[place:])
    return tuple(parts)


def _form(written: str, inside: str, *, at_start: bool) -> Part:
    if found := _VALUE.fullmatch(inside):
        arguments = tuple(_ARGUMENT.findall(found[3] or ""))
        return Value(written, found[1], found[2], arguments, at_start)
    if found := _SPAN.fullmatch(inside):
        return Span(written, found[1], found[2], found[3])
    if found := _SITE.fullmatch(inside):
        return Site(written, found[1], at_start)
    return Unreadable(written)


@dataclass(frozen=True, slots=True)
class Read:
    """A name that a template reads, or None for what has no form; and the placeholder it is in."""

    written: str
    name: str | None
    in_each: bool = False
    each: bool = False  # the list that one goes over
    formatted: bool = False
    format: str | None = None  # as it is written, with its arguments
    arguments: tuple[str, ...] = ()


def placeholders(text: str) -> Iterator[Read]:
    """Every name that the text reads, for the warnings of a save."""
    return _reads(parse(text), in_each=False)


def _reads(parts: tuple[Part, ...], *, in_each: bool) -> Iterator[Read]:
    for part in parts:
        match part:
            case str():
                pass
            case Value(written, name, form, given):
                formatted = form is not None
                yield Read(
                    written, name, in_each, formatted=formatted, format=form, arguments=given
                )
            case Span(written, _, start, end):
                yield Read(written, start, in_each, formatted=True)
                yield Read(written, end, in_each, formatted=True)
            case Site(written):
                yield Read(written, "links.site", in_each)
            case Each(written, name, body):
                yield Read(written, name, in_each, each=True)
                yield from _reads(body, in_each=True)
            case Unreadable(written):
                yield Read(written, None, in_each)
