"""Our uuid version 7."""

import time

from procession.queue.ids import uuid7


def test_an_id_says_when_it_was_made_and_nothing_else():
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(1000)]
    after = time.time_ns() // 1_000_000

    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {"specified in RFC 4122"}
    assert all(before <= one.int >> 80 <= after for one in made)
    assert len({one.int & (1 << 62) - 1 for one in made}) == 1000
