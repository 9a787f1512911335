"""The place in the order of changes that a reader has got to, as text it hands back.

It is a time, or a time and the run that changed then, and says whose runs they are: in the list of
another tenant it means nothing. Readers take it as it is; a time alone is a place too, of anybody.

While a burst is younger than what may still be followed by older changes, a reader goes on through
it run by run, and its cursor holds on to a floor: the time up to which all was settled when that
began. Once it is through, or time has caught up with it, it goes back there: what was committed
behind it meanwhile is read then.
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
TIME = r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)"
RUN = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
FORM = re.compile(f"({TIME})(?:(?:~({RUN})(?:~({TIME}))?)?~([0-9a-f]{{8}}))?", re.ASCII)


def mark(tenant: str) -> str:
    """What the cursors of a tenant end in."""
    return hashlib.sha256(tenant.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Since:
    """A place as a reader hands it in, and whose cursor it says it is; None of a time alone."""

    place: Place
    mark: str | None = None
    floor: datetime | None = None

    def is_of(self, tenant: str) -> bool:
        """Whether it means something to this tenant."""
        return self.mark in (None, mark(tenant))


def parse_since(text: str) -> Since:
    """The place that the text names; a ValueError says what it must be."""
    form = FORM.fullmatch(text)
    if form is None:
        raise ValueError(RULE)
    try:
        at, floor = _time(form[1]), form[3] and _time(form[3])
    except (ValueError, OverflowError):
        raise ValueError(RULE) from None
    return Since(Place(at, UUID(form[2])) if form[2] else Place(at), form[4], floor or None)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.upper()).astimezone(UTC)


def cursor(
    tenant: str, since: Since, runs: Sequence[StoredRun], *, more: bool, now: datetime
) -> str:
    """Where to go on after this page, so that a run may come twice and none is passed over."""
    settled_until = now - UNSETTLED
    if more and runs and runs[0].updated_at > settled_until:
        floor = since.floor or settled_until
        return f"{_place(runs[-1])}~{wire_time(floor)}~{mark(tenant)}"
    is_settled = bool(runs) and runs[-1].updated_at <= settled_until
    reached = runs[-1].updated_at if is_settled else settled_until
    if since.floor is not None and since.floor <= reached:
        return f"{wire_time(since.floor)}~{mark(tenant)}"
    return f"{_place(runs[-1]) if is_settled else wire_time(reached)}~{mark(tenant)}"


def _place(run: StoredRun) -> str:
    return f"{wire_time(run.updated_at)}~{run.id}"
