"""Entries: the application's records. A change answers with what it fired."""

from collections.abc import Iterator

from procession.client.calls import Calls, Json, path, wire
from procession.client.shapes import Entry, Fired, Page, Saved


class Entries:
    """`client.entries`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def save(  # noqa: PLR0913  what a write may say
        self,
        content_type: str,
        entry_id: str,
        data: Json,
        *,
        status: str | None = None,
        sensitivity: str | None = None,
        version: int | None = None,
        only_new: bool = False,
    ) -> Saved:
        """Create it or replace it; with a version only at that one, or only if there is none."""
        return self._calls.send(
            Saved,
            "PUT",
            path("entries", content_type, entry_id),
            wire(data=data, status=status, sensitivity=sensitivity),
            {"If-Match": _tag(version), "If-None-Match": "*" if only_new else None},
        )

    def move(
        self,
        content_type: str,
        entry_id: str,
        transition: str,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Saved:
        """Perform a declared transition."""
        where = path("entries", content_type, entry_id, "transitions", transition)
        headers = {"If-Match": _tag(version)}
        return self._calls.post(Saved, where, key=idempotency_key, headers=headers)

    def get(self, content_type: str, entry_id: str) -> Entry:
        """One entry."""
        return self._calls.get(Entry, path("entries", content_type, entry_id))

    def delete(self, content_type: str, entry_id: str, version: int | None = None) -> Fired:
        """Take it away."""
        where = path("entries", content_type, entry_id)
        return self._calls.send(Fired, "DELETE", where, headers={"If-Match": _tag(version)})

    def page(
        self, content_type: str, status: str | None = None, page: int = 1, page_size: int = 50
    ) -> Page[Entry]:
        """Part of the entries of a content type, by id."""
        where = path("entries", content_type)
        return self._calls.get(Page[Entry], where, status=status, page=page, page_size=page_size)

    def all(self, content_type: str, status: str | None = None) -> Iterator[Entry]:
        """Each of the entries of a content type, by id."""
        number, more = 1, True
        while more:
            page = self.page(content_type, status, number, 100)
            yield from page.items
            number, more = number + 1, page.has_next_page


def _tag(version: int | None) -> str | None:
    return None if version is None else f'"{version}"'
