"""A reader that follows what changes loses nothing, however late a write is committed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from procession.api.changes import cursor, parse_since

START = datetime(2026, 11, 30, 8, tzinfo=UTC)
MS = timedelta(milliseconds=1)
RUNS = 5


@dataclass(frozen=True)
class Change:
    """What a write makes of a run, seen by others from its commit on."""

    id: UUID
    updated_at: datetime
    committed_at: datetime


def changes(writes):
    """One after another; a run that somebody still writes is written once that is committed."""
    made, now, free = [], START, {}
    for gap, held, which in writes:
        now += gap * MS
        at = max(now, free.get(which, now))
        made.append(Change(UUID(int=which + 1), at, at + held * MS))
        free[which] = made[-1].committed_at
    return made


class Reader:
    """It goes by nothing but the pages that it gets."""

    def __init__(self, made, size):
        self.made, self.size = made, size
        self.now, self.since, self.copy = START, "2000-01-01T00:00:00Z", {}

    def stands(self, now):
        seen = [one for one in self.made if one.committed_at <= now]
        return {one.id: one for one in sorted(seen, key=lambda one: one.updated_at)}

    def read(self, wait):
        """One page; whether more follow."""
        self.now += wait * MS
        since = parse_since(self.since)
        place = (since.place.at, since.place.after)
        ahead = sorted(
            (one.updated_at, one.id)
            for one in self.stands(self.now).values()
            if (one.updated_at, one.id) > place
        )
        page = [self.stands(self.now)[id_] for _, id_ in ahead[: self.size]]
        self.copy |= {one.id: one for one in page}
        more = len(ahead) > self.size
        before, self.since = self.since, cursor("a", since, page, more=more, now=self.now)
        assert not more or self.since != before
        return more


# A run is written, its commit takes 1.5 s, and a page of one is always one of many.
HELD = [(0, 1500, 0), *((70, 0, 1 + one % 40) for one in range(90))]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 900), st.one_of(st.just(0), st.integers(0, 5000)), st.integers(0, RUNS)
        ),
        max_size=40,
    ),
    st.integers(1, 4),
    st.lists(st.integers(20, 1200), min_size=1, max_size=6),
)
@example(HELD, 1, [140])
@example(HELD, 1, [75])
@example(HELD, 2, [140])
@example(HELD, 3, [600, 30])
def test_nothing_is_lost_and_the_reader_gets_to_the_end(writes, size, paces):
    made = changes(writes)
    reader = Reader(made, size)
    end = max([START, *(one.committed_at for one in made)])
    calls = 0
    while reader.now <= end:
        reader.read(paces[calls % len(paces)])
        calls += 1

    left = 0
    while reader.read(paces[left % len(paces)]) or reader.now <= end + 5001 * MS:
        left += 1
        assert left < 2_000
    while reader.read(1):
        left += 1
        assert left < 2_000

    assert reader.copy == reader.stands(reader.now)


AT, ID = "2026-11-30T08:00:00Z", "01a22c47-9805-790a-878c-0c0a6c66b10e"


@pytest.mark.parametrize(
    "text", [f"{AT}~{AT}~deadbeef", f"{AT}~{ID}~{AT}", f"{AT}~{ID}~x~deadbeef", f"{AT}~{ID}~~dead"]
)
def test_a_floor_has_its_place_in_a_cursor_of_a_run_only(text):
    with pytest.raises(ValueError, match="must be a time"):
        parse_since(text)


def test_a_floor_is_a_time_that_there_is():
    since = parse_since(f"{AT}~{ID}~{AT}~deadbeef")

    assert since.floor == START
    with pytest.raises(ValueError, match="must be a time"):
        parse_since(f"{AT}~{ID}~{AT.replace('30T', '31T')}~deadbeef")
