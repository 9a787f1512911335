"""Real workers that are killed, stopped past their leases and cut off, over and over: whatever
happens to them, every run ends, in order, and says of itself what a receiver saw."""

from collections import Counter

import pytest
from fix_chaos import complaints
from fix_persons import persons

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HARMS = ["kill", "stop", "cut", "cut", "stop"]


async def stopped(chaos):
    return [await worker.stop() for worker in chaos.workers]


async def outcomes(conn):
    cursor = await conn.execute("select outcome from attempt")
    return Counter(row[0] for row in await cursor.fetchall())


async def test_forty_runs_survive_what_happens_to_their_workers(chaos):
    made = await chaos(1)

    assert await made.go(workers=2, runs=40, harms=HARMS, seconds=120)

    assert await complaints(made.conn, made) == []
    found = set(await outcomes(made.conn))
    assert {"Succeeded", "Retried", "Failed"} <= found
    assert found & {"Lost", "Unknown"}
    assert await stopped(made) == [0] * len(made.workers)


async def test_three_hundred_runs_survive_leases_that_lapse_by_themselves(chaos):
    made = await chaos(2, patient=True)

    assert await made.go(workers=3, runs=300, harms=[*HARMS, "outlast"] * 4, seconds=800)

    assert await complaints(made.conn, made) == []
    expected = {"Succeeded", "Retried", "Failed", "Lost", "Unknown"}
    assert expected <= set(await outcomes(made.conn))
    assert await stopped(made) == [0] * len(made.workers)


async def test_persons_who_command_beside_the_harms_meet_and_make_no_lie(chaos, database):
    made = await chaos(4)

    async with persons(made, database) as they:
        assert await made.go(workers=2, runs=150, harms=["kill", *HARMS, "stop"], seconds=240)
    made.retried = they.retried

    assert await complaints(made.conn, made) == []
    assert they.odd == []
    done = {verb for (verb, code), _ in they.answers.items() if code == "done"}
    assert done == {"retry", "cancel", "abandon", "force-end"}
    assert await stopped(made) == [0] * len(made.workers)


LIES = "performed at once", "was answered", "not answered", "went out again", "had not succeeded"


async def test_without_the_guard_on_tokens_it_would_be_seen(chaos):
    made = await chaos(3, guarded=False)

    await made.go(workers=3, runs=40, harms=["stop"] * 8, seconds=90)

    said = await complaints(made.conn, made)
    assert any(lie in one for one in said for lie in LIES), said
