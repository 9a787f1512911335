"""Runs: read, followed, and what a person may do to one or to many."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TypedDict, Unpack

from procession.client.calls import Calls, path, wire
from procession.client.shapes import Bulk, Counted, Page, Run, RunPage

RUNS = "workflow-runs"
BULK = (RUNS, "bulk")


class Filters(TypedDict, total=False):
    """Which runs; what is left out narrows nothing."""

    status: str | None
    workflow_id: str | None
    entry_id: str | None
    content_type: str | None


class Chosen(TypedDict, total=False):
    """Which runs of many. Without a status, those that the verb is for."""

    status: list[str] | None
    workflow_id: str | None
    entry_id: str | None
    content_type: str | None
    created_from: datetime | None
    created_before: datetime | None


class Runs:
    """`client.runs`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.bulk = Bulks(calls)

    def page(self, page: int = 1, page_size: int = 50, **filters: Unpack[Filters]) -> RunPage:
        """Part of the runs, the newest first."""
        known = _known(filters)
        return self._calls.get(RunPage, path(RUNS), page=page, page_size=page_size, **known)

    def changed(
        self, since: str | datetime, page_size: int = 100, **filters: Unpack[Filters]
    ) -> Iterator[RunPage]:
        """What changed since then, the oldest change first, until there is no more.

        Keep the `cursor` of each page that is dealt with, and begin with it the next time. A run
        may come twice, so replace it by its id; none is left out.
        """
        known = _known(filters)
        while True:
            page = self._calls.get(
                RunPage, path(RUNS), changed_since=since, page_size=page_size, **known
            )
            yield page
            if not page.has_next_page or page.cursor is None:
                return
            since = page.cursor

    def get(self, run_id: str) -> Run:
        """One run."""
        return self._calls.get(Run, path(RUNS, run_id))

    def retry(self, run_id: str, ordinal: int, idempotency_key: str | None = None) -> Run:
        """Put one action of it back to due."""
        where = path(RUNS, run_id, "actions", str(ordinal), "retry")
        return self._calls.post(Run, where, key=idempotency_key)

    def cancel(self, run_id: str, idempotency_key: str | None = None) -> Run:
        """Stop what of it has not happened."""
        return self._calls.post(Run, path(RUNS, run_id, "cancel"), key=idempotency_key)

    def abandon(self, run_id: str, idempotency_key: str | None = None) -> Run:
        """Undo what of it has happened."""
        return self._calls.post(Run, path(RUNS, run_id, "abandon"), key=idempotency_key)

    def force_end(self, run_id: str, idempotency_key: str | None = None) -> Run:
        """End it from any state, at once."""
        return self._calls.post(Run, path(RUNS, run_id, "force-end"), key=idempotency_key)


class Bulks:
    """`client.runs.bulk`: retry, cancel or abandon for many runs, which a worker carries out."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def count(self, verb: str, **chosen: Unpack[Chosen]) -> int:
        """How many runs there are to decide on. Nothing is done."""
        body = {"filter": wire(**chosen), "dryRun": True}
        return self._calls.send(Counted, "POST", path(*BULK, verb), body).matched

    def ask(
        self,
        verb: str,
        *,
        unknown: bool = False,
        idempotency_key: str | None = None,
        **chosen: Unpack[Chosen],
    ) -> Bulk:
        """Have it done. With `unknown`, a retry takes along what may have happened."""
        body: dict[str, object] = {"filter": wire(**chosen)}
        if unknown:
            body["unknown"] = True
        return self._calls.post(Bulk, path(*BULK, verb), body, key=idempotency_key)

    def get(self, bulk_id: str) -> Bulk:
        """How far it has come."""
        return self._calls.get(Bulk, path(*BULK, bulk_id))

    def page(self, page: int = 1, page_size: int = 50) -> Page[Bulk]:
        """Part of all that was asked for, the newest first."""
        return self._calls.get(Page[Bulk], path(*BULK), page=page, page_size=page_size)

    def stop(self, bulk_id: str, idempotency_key: str | None = None) -> Bulk:
        """Leave what is not done yet undone."""
        return self._calls.post(Bulk, path(*BULK, bulk_id, "stop"), key=idempotency_key)

    def follow(self, bulk_id: str, every: float = 1.0) -> Iterator[Bulk]:
        """How it stands, again and again until it has ended."""
        while True:
            standing = self.get(bulk_id)
            yield standing
            if standing.finished_at is not None:
                return
            time.sleep(every)


def _known(filters: Filters) -> Filters:
    """The filters, if there are such: the API ignores another, and would answer every run."""
    names = Filters.__annotations__
    for name in filters:
        if name not in names:
            raise TypeError(f"There is no filter {name}, only {', '.join(names)}")
    return filters
