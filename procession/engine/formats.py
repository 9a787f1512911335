"""How a template shows a value: as a date, as money, in one case, as the time between two.

A format that does not fit the value raises Misfit, and the placeholder stays as it is written. No
language takes part: names of months and days are English.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from procession.engine.values import amount, instant, text_of

LONGEST_FORMAT = 64
PLAIN_DATE = 10  # characters of a date without a time
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm"

_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)
_CURRENCY = re.compile(r"[A-Za-z]{3}", re.ASCII)
_TOKEN = re.compile(r"'([^']*)'|([yMdHhmst])\2*|[^']", re.DOTALL)
_CENT = Decimal("0.01")
_EXACT = Context(prec=6000, rounding=ROUND_HALF_UP)  # the longest number that JSON gives fits

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Misfit(Exception):  # noqa: N818 - an answer within the walk, and nobody's error
    """The format does not fit the value."""


@lru_cache(maxsize=512)
def zone(name: str) -> tzinfo | None:
    """The IANA time zone of this name."""
    if not _ZONE.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # a directory of zones is an OSError
        return None


def show(
    name: str, arguments: Sequence[str], value: object, *, time_zone: str, currency: str
) -> str:
    """The value in the format of this name; a null or empty one is empty."""
    match name, *arguments:
        case ["date"]:
            wanted = (DEFAULT_FORMAT, time_zone)
        case ["date", form]:
            wanted = (form, time_zone)
        case ["date", form, where]:
            wanted = (form, where)
        case ["money"]:
            return _money(value, currency)
        case ["money", code]:
            return _money(value, code)
        case ["upper"]:
            return _scalar(value).upper()
        case ["lower"]:
            return _scalar(value).lower()
        case _:
            raise Misfit
    return _date(value, *wanted)


def is_format(name: str, arguments: Sequence[str]) -> bool:
    """Whether there is a value that it fits."""
    value = "2026-01-01T00:00:00Z" if name == "date" else 1
    try:
        show(name, arguments, value, time_zone="UTC", currency="EUR")
    except Misfit:
        return False
    return True


def between(unit: str, start: object, end: object) -> str:
    """The time from one value to the other: `duration` in hours and minutes, or decimal `hours`."""
    if _is_empty(start) or _is_empty(end):
        return ""
    since, until = instant(start), instant(end)
    if since is None or until is None:
        raise Misfit
    minutes = int(abs((until - since).total_seconds())) // 60
    sign = "-" if until < since else ""
    if unit == "hours":
        tenths = (minutes + 3) // 6
        return f"{sign if tenths else ''}{tenths // 10}.{tenths % 10}"
    hours, minutes = divmod(minutes, 60)
    parts = [_count(hours, "hour")] if hours else []
    if minutes or not hours:
        parts.append(_count(minutes, "minute"))
    return (sign if hours or minutes else "") + " ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _is_empty(value: object) -> bool:
    return value is None or value == ""


def _scalar(value: object) -> str:
    if isinstance(value, list | dict):
        raise Misfit
    return text_of(value)


def _money(value: object, currency: str) -> str:
    if _is_empty(value):
        return ""
    number = amount(value)
    if number is None or not _CURRENCY.fullmatch(currency):
        raise Misfit
    rounded = number.quantize(_CENT, context=_EXACT)
    return f"{currency.upper()} {abs(rounded) if rounded.is_zero() else rounded:,}"


def _date(value: object, form: str, where: str) -> str:
    if _is_empty(value):
        return ""
    at, there = instant(value), zone(where)
    if at is None or there is None or len(form) > LONGEST_FORMAT:
        raise Misfit
    if isinstance(value, str) and len(value) == PLAIN_DATE:
        there = UTC  # a day is the same day everywhere
    try:
        return _written(at.astimezone(there), form or DEFAULT_FORMAT)
    except OverflowError:  # the zone leads out of the years that there are
        raise Misfit from None


def _written(at: datetime, form: str) -> str:
    """Each run of a letter that stands for a part of the date replaced by it."""
    shown: list[str] = []
    place = 0
    for token in _TOKEN.finditer(form):
        if token.start() != place:
            break
        place = token.end()
        if token[2]:
            part = _PARTS.get(token[0])
            if part is None:
                raise Misfit
            shown.append(part(at))
        else:
            shown.append(token[0] if token[1] is None else token[1])
    if place != len(form):  # a quote that nothing closes
        raise Misfit
    return "".join(shown)


_PARTS: Mapping[str, Callable[[datetime], str]] = {
    "yyyy": lambda at: f"{at.year:04}",
    "yy": lambda at: f"{at.year % 100:02}",
    "MMMM": lambda at: MONTHS[at.month - 1],
    "MMM": lambda at: MONTHS[at.month - 1][:3],
    "MM": lambda at: f"{at.month:02}",
    "M": lambda at: str(at.month),
    "dddd": lambda at: DAYS[at.weekday()],
    "ddd": lambda at: DAYS[at.weekday()][:3],
    "dd": lambda at: f"{at.day:02}",
    "d": lambda at: str(at.day),
    "HH": lambda at: f"{at.hour:02}",
    "H": lambda at: str(at.hour),
    "hh": lambda at: f"{(at.hour + 11) % 12 + 1:02}",
    "h": lambda at: str((at.hour + 11) % 12 + 1),
    "mm": lambda at: f"{at.minute:02}",
    "m": lambda at: str(at.minute),
    "ss": lambda at: f"{at.second:02}",
    "s": lambda at: str(at.second),
    "tt": lambda at: "AM" if at.hour < 12 else "PM",  # noqa: PLR2004
}
