"""An entry as its row is in JSON. A time that no calendar has makes it no less readable."""

from datetime import datetime

from msgspec import ValidationError, convert, json

from procession.engine.entry import Entry
from procession.queue.moments import end_of_time

_entry = json.Decoder(Entry).decode


def entry_in(document: str) -> Entry:
    """The entry that this is the row of."""
    try:
        return _entry(document)
    except ValidationError:
        fields: dict[str, object] = json.decode(document)
        times = {name: _moment(fields[name]) for name in ("created_at", "updated_at")}
        return convert(fields | times, Entry)


def _moment(value: object) -> datetime:
    try:
        return convert(value, datetime)
    except ValidationError:
        return end_of_time(str(value))
