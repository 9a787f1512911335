"""The place in the order of changes that a reader has got to, as text it hands back.

It is a time, or a time and the run that changed then. Readers take it as it is.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from procession.api.shapes import wire_time
from procession.queue.runs import Place
from procession.queue.stored_run import StoredRun

# A write takes its time before it commits: younger than this, a change may still be followed by an
# older one.
UNSETTLED = timedelta(seconds=5)
RULE = "must be a time as in RFC 3339, with its zone, or the cursor of an earlier answer"
FORM = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d))"
    r"(?:~([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?",
    re.ASCII,
)


def parse_place(text: str) -> Place:
    """The place that the text names; a ValueError says what it must be."""
    form = FORM.fullmatch(text)
    if form is None:
        raise ValueError(RULE)
    try:
        at = datetime.fromisoformat(form[1].upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(RULE) from None
    return Place(at, UUID(form[2])) if form[2] else Place(at)


def cursor(runs: Sequence[StoredRun], *, more: bool, now: datetime) -> str:
    """Where to go on after this page, so that a run may come twice and none is passed over."""
    settled_until = now - UNSETTLED
    if not runs:
        return wire_time(settled_until)
    last = runs[-1]
    if last.updated_at <= settled_until or (more and runs[0].updated_at > settled_until):
        return f"{wire_time(last.updated_at)}~{last.id}"
    return wire_time(settled_until)
