"""Times that a row may hold and no calendar of ours has: infinity, years of too many digits, BC.

They are read as the first time there is or the last one, since an error would end the statement,
and with it what was asked of every other row. In a statement these two stand for all time before
and after, so that who goes on behind such a row does not meet it again.
"""

from datetime import UTC, datetime
from typing import Any

from psycopg import BaseConnection, DataError, adapters
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.datetime import DatetimeDumper
from typing_extensions import override

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def bear_with_any(conn: BaseConnection[Any]) -> None:
    """Let no time that this connection reads be an error."""
    conn.adapters.register_loader("timestamptz", _Clamped)
    conn.adapters.register_dumper(datetime, _Stretched)


def end_of_time(text: str) -> datetime:
    """What a time that cannot be read is read as."""
    return FIRST if text.startswith("-") or text.endswith("BC") else LAST


class _Clamped(Loader):
    @override
    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        quick = adapters.get_loader(oid, Format.TEXT)
        assert quick is not None, "psycopg has one"
        self._read = quick(oid, context).load

    @override
    def load(self, data: Buffer) -> datetime:
        try:
            return self._read(data)
        except DataError:
            return end_of_time(bytes(data).decode())


class _Stretched(DatetimeDumper):
    @override
    def dump(self, obj: datetime) -> Buffer | None:
        if obj.year in {FIRST.year, LAST.year} and obj.tzinfo and obj in {FIRST, LAST}:
            return b"infinity" if obj == LAST else b"-infinity"
        return super().dump(obj)
