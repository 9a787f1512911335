"""A text as the value of a field: what an action writes comes as text, and becomes what fits.

Blank is null, except for text. What does not fit raises MisfitError.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Never, cast

from procession.engine.content_type import ContentType, Field, Kind
from procession.engine.entry import fits
from procession.engine.redaction import storable
from procession.engine.values import amount, written_out

LONGEST = 1_048_576  # characters of a value with its numbers written out, as of a rendered text
DEEPEST = 64  # objects and lists inside one another, as in the body of a request

_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)


class MisfitError(Exception):
    """The text is no value of the field."""


def value_of(content_type: ContentType, name: str, text: str) -> object:
    """The value that the field takes for this text; a field that is not declared holds text."""
    field = content_type.fields.get(name, Field())
    try:
        value = _read(field, text)
    except (ValueError, RecursionError):
        raise MisfitError from None
    if not fits(field, value) or not _is_storable(value):
        raise MisfitError
    return value


def _read(field: Field, text: str) -> object:
    if field.type is Kind.TEXT:
        return text
    return _READ[field.type](text.strip()) if text.strip() else None


def _number(text: str) -> object:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if _WHOLE.fullmatch(text):
        return int(text)
    return written_out(_finite(text))[0]


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _boolean(text: str) -> object:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _money(text: str) -> object:
    """A number where that is exact, else the decimal text, which always is."""
    exact = amount(text)
    if exact is None:
        raise ValueError(text)
    number = _number(text)
    return number if Decimal(str(number)) == exact else text


def _json(text: str) -> object:
    left = LONGEST - len(text)

    def number(spelt: str) -> float:
        nonlocal left
        stored, longer = written_out(_finite(spelt))
        left -= longer
        return stored if left >= 0 else _refuse("as long as that")

    read: object = json.loads(
        text, object_pairs_hook=_once, parse_constant=_refuse, parse_float=number
    )
    return read


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _refuse("a name twice")


def _refuse(what: str) -> Never:
    raise ValueError(what)


_READ: Mapping[Kind, Callable[[str], object]] = {
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: str,
    Kind.MONEY: _money,
    Kind.JSON: _json,
    Kind.REFERENCE: _json,
}


def _is_storable(value: object, depth: int = 0) -> bool:
    """Whether Postgres keeps it: neither NUL, nor half a character, nor too deep."""
    if depth > DEEPEST:
        return False
    match value:
        case str():
            return storable(value) == value
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return all(storable(k) == k and _is_storable(one, depth + 1) for k, one in pairs)
        case list():
            return all(_is_storable(one, depth + 1) for one in cast("list[object]", value))
        case _:
            return True
