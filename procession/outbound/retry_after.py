"""What a receiver says of when it wants to be called again."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_SECONDS = re.compile(r"0*([0-9]+)", re.ASCII)
_CENTURIES = "9" * 10  # seconds: far above every maximum
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_SHORT, _LONG = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_DATES = tuple(
    re.compile(one, re.ASCII)
    for one in (
        rf"{_SHORT}, (?P<day>\d\d) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"{_LONG}, (?P<day>\d\d)-{_MONTH}-(?P<year>\d\d) {_TIME} GMT",
        rf"{_SHORT} {_MONTH} (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
_FAR = 50  # years ahead: a year of two digits is then one of the past


def read_retry_after(values: Sequence[str], now: datetime) -> timedelta | None:
    """How long to wait; None when nothing, or nothing that can be read, is said."""
    if len(values) != 1:
        return None
    value = values[0].strip(" \t")
    if digits := _SECONDS.fullmatch(value):
        said = digits[1] if len(digits[1]) <= len(_CENTURIES) else _CENTURIES
        return timedelta(seconds=int(said))
    for form in _DATES:
        if read := form.fullmatch(value):
            at = _date(read, now)
            return None if at is None else max(at - now, timedelta())
    return None


def _date(read: re.Match[str], now: datetime) -> datetime | None:
    year = int(read["year"])
    if len(read["year"]) == len("94"):
        year += now.year // 100 * 100
        if year > now.year + _FAR:
            year -= 100
    month = _MONTHS.index(read["month"]) + 1
    time = (int(read["hour"]), int(read["minute"]), min(int(read["second"]), 59))  # a leap second
    try:
        return datetime(year, month, int(read["day"]), *time, tzinfo=UTC)
    except ValueError:
        return None
