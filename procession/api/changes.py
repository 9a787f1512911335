"""The place in the order of changes that a reader has got to, as text it hands back.

It is a time, or a time and the run that changed then, and says whose runs they are: in the list of
another tenant it means nothing. Readers take it as it is; a time alone is a place too, of anybody.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from procession.api.shapes import wire_time
from procession.queue.runs import Place
from procession.queue.stored_run import StoredRun

# A write takes its time before it commits: younger than this, a change may still be followed by an
# older one.
UNSETTLED = timedelta(seconds=5)
RULE = "must be a time as in RFC 3339, with its zone, or the cursor of an earlier answer"
FOREIGN = "is a cursor of another tenant"
FORM = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d))"
    r"(?:(?:~([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))?~([0-9a-f]{8}))?",
    re.ASCII,
)


def mark(tenant: str) -> str:
    """What the cursors of a tenant end in."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Since:
    """A place as a reader hands it in, and whose cursor it says it is; None of a time alone."""

    place: Place
    mark: str | None

    def is_of(self, tenant: str) -> bool:
        """Whether it means something to this tenant."""
        return self.mark in (None, mark(tenant))


def parse_since(text: str) -> Since:
    """The place that the text names; a ValueError says what it must be."""
    form = FORM.fullmatch(text)
    if form is None:
        raise ValueError(RULE)
    try:
        at = datetime.fromisoformat(form[1].upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(RULE) from None
    return Since(Place(at, UUID(form[2])) if form[2] else Place(at), form[3])


def cursor(tenant: str, runs: Sequence[StoredRun], *, more: bool, now: datetime) -> str:
    """Where to go on after this page, so that a run may come twice and none is passed over."""
    settled_until = now - UNSETTLED
    last = runs[-1] if runs else None
    if last is not None and (
        last.updated_at <= settled_until or (more and runs[0].updated_at > settled_until)
    ):
        return f"{wire_time(last.updated_at)}~{last.id}~{mark(tenant)}"
    return f"{wire_time(settled_until)}~{mark(tenant)}"
