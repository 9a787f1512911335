"""JSON values as the fields of an entry hold them: comparing, reading and writing them as text."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import cast

import msgspec

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
LONGEST_ISO = 40
WRITTEN_OUT = 1e16  # a float from here on is told with an exponent, which jsonb does not keep
SHORT = 1e-4  # one below it is told so too; Postgres hands it out with all its zeros
_DECIMAL = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?", re.ASCII)


def same(left: object, right: object) -> bool:
    """Whether two JSON values are one: 1 is 1.0 but not true, and the order of keys is nothing.

    A loop and not a recursion, since callers choose the depth.
    """
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            ours, theirs = cast("Mapping[str, object]", a), cast("Mapping[str, object]", b)
            if ours.keys() != theirs.keys():
                return False
            pairs.extend((ours[key], theirs[key]) for key in ours)
        elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
            some, others = cast("Sequence[object]", a), cast("Sequence[object]", b)
            if len(some) != len(others):
                return False
            pairs.extend(zip(some, others, strict=True))
        elif isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif a != b and not _same_number(cast("object", a), b):
            return False
    return True


def _same_number(a: object, b: object) -> bool:
    """Whether a whole number is how the database spells this float: it writes 1e23 in full."""
    real, whole = (a, b) if isinstance(a, float) else (b, a)
    return (
        isinstance(real, float)
        and isinstance(whole, int)
        and math.isfinite(real)
        and whole == Decimal(repr(real))
    )


def written_out(number: float) -> tuple[float, int]:
    """A finite number as Postgres gives it back, and how many digits it is longer by there.

    It comes without an exponent, and without the sign of a zero.
    """
    if not number or SHORT <= abs(number) < WRITTEN_OUT:
        return number or 0.0, 0
    exact = Decimal(repr(number))
    return int(exact) if abs(number) >= WRITTEN_OUT else number, abs(exact.adjusted())


def is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def instant(value: object) -> datetime | None:
    """The time in UTC that a value names, when it has the shape of an ISO date or time; else None.

    A date is its midnight, and a time without an offset is UTC.
    """
    if isinstance(value, str):
        if len(value) > LONGEST_ISO or not _ISO.fullmatch(value):
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    try:
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except OverflowError:  # its offset leads out of the years that there are
        return None


def amount(value: object) -> Decimal | None:
    """The number that a value is, or that its text spells; else None."""
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return None
    if not isinstance(value, str) and not is_number(value):
        return None
    try:
        read = Decimal(str(value))
    except InvalidOperation:
        return None
    return read if read.is_finite() else None


def text_of(value: object) -> str:
    """A value as a template shows it: text as it is, anything else as compact JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case datetime():
            return iso(value)
        case _:
            return msgspec.json.encode(value).decode()


def iso(at: datetime) -> str:
    """ISO 8601 in UTC, with the fraction only where there is one."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
