"""A consumer that keeps a copy of all runs by changedSince, while many sessions write them."""

import asyncio
import random
import uuid
from datetime import timedelta

import pytest
from fix_queue import WANTED
from fix_races import target, wish

from procession.engine.errors import ConflictError
from procession.engine.outcome import Failed, Succeeded
from procession.queue import commands, manual
from procession.queue.claim import claim
from procession.queue.record import Ended

LIST = "/api/workflow-runs"
OLD = "2000-01-01T00:00:00Z"
WRITERS = 4
ROUNDS = 12
# Long ago, three to a moment, so that a page ends between runs of one moment.
AGED = """
    with aged as (select id, row_number() over (order by id) as n from run)
    update run set updated_at = '2020-11-30 08:00Z'::timestamptz + aged.n / 3 * interval '1 s'
    from aged where aged.id = run.id
"""


class Mirror:
    """A copy that goes by nothing but the answers."""

    def __init__(self, client, size=7):
        self.client, self.size = client, size
        self.copy, self.since, self.calls, self.seen = {}, OLD, 0, 0

    async def call(self):
        """Read one page; whether more follow."""
        query = {"changedSince": self.since, "pageSize": self.size}
        answer = await self.client.get(LIST, params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        if page["hasNextPage"]:
            assert page["cursor"] != self.since, "it would be asked for the same page for ever"
        self.copy |= {run["id"]: run for run in page["items"]}
        self.since = page["cursor"]
        self.calls, self.seen = self.calls + 1, self.seen + len(page["items"])
        return page["hasNextPage"]

    async def to_the_end(self, most):
        """Read until nothing follows, in so many calls at most."""
        before = self.calls
        while await self.call():
            assert self.calls - before <= most


def stand(runs):
    """What of a run is the same whenever it is read."""
    return {id_: {**run, "waiting": None} for id_, run in runs.items()}


async def everything(client):
    """All runs, by the list of the newest."""
    found, page = {}, 1
    while True:
        answer = (await client.get(LIST, params={"page": page, "pageSize": 100})).json()
        found |= {run["id"]: run for run in answer["items"]}
        if not answer["hasNextPage"]:
            return found
        page += 1


@pytest.fixture
async def made(make):
    return await make("Safe", "Safe")


async def write(session, made, race, chance):
    """Queue, claim, record and cancel, some of it in transactions that stay open for a while."""
    for _ in range(ROUNDS):
        async with session.transaction():
            run_id = (await manual.run(session, wish(made, None))).run_id
            await asyncio.sleep(chance.random() / 20)  # committed later than it says
        for taken in await claim(session, WANTED, 2):
            outcome = chance.choice([Succeeded(), Failed("400"), Failed("503", retryable=True)])
            await race.recorder.record(taken, Ended(outcome, 1))
        if chance.random() < 0.3:
            try:
                await commands.cancel(session, target(run_id))
            except ConflictError:
                continue


async def test_a_copy_follows_many_writers_and_ends_as_what_there_is(made, race, conn, call):
    await made.queue(40)
    await conn.execute(AGED)
    mirror = Mirror(await call("Viewer"))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        writers = [
            group.create_task(write(session, made, race, random.Random(seed)))
            for seed, session in enumerate(race.sessions[:WRITERS])
        ]
        while not all(one.done() for one in writers):
            await mirror.call()

    await mirror.to_the_end(most=40)

    there = await everything(mirror.client)
    assert len(there) == 40 + WRITERS * ROUNDS
    assert stand(mirror.copy) == stand(there)


async def test_what_is_committed_late_is_seen_all_the_same(made, race, conn, call):
    """A write that took its time before others, and is committed once they were read."""
    early, late = await made.queue(2)
    mirror = Mirror(await call("Viewer"))
    async with race.sessions[0].transaction():
        await commands.cancel(race.sessions[0], target(early))
        await commands.cancel(conn, target(late))
        await mirror.to_the_end(most=3)
        assert mirror.copy[str(late)]["status"] == "Cancelled"
        assert mirror.copy[str(early)]["status"] == "Pending"

    await mirror.to_the_end(most=3)

    assert mirror.copy[str(early)]["status"] == "Cancelled"


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_runs_of_one_moment_are_read_once_each_and_none_is_passed_over(
    made, conn, call, size
):
    await made.queue(20)
    await conn.execute(AGED)
    mirror = Mirror(await call("Viewer"), size)

    await mirror.to_the_end(most=20 // size + 1)

    assert (len(mirror.copy), mirror.seen) == (20, 20)
    await mirror.to_the_end(most=1)
    assert mirror.seen == 20


async def test_a_burst_of_one_moment_just_now_is_read_to_its_end(made, conn, call):
    """All of it younger than the margin: each page goes on behind its last run."""
    await made.queue(30)
    await conn.execute("update run set updated_at = now()")
    mirror = Mirror(await call("Viewer"))

    await mirror.to_the_end(most=5)

    assert len(mirror.copy) == 30


async def test_a_page_across_the_margin_goes_on_from_it(made, conn, call):
    """Its first run is settled and its last is not: the next page begins where that ends."""
    ids = await made.queue(4)
    await conn.execute(
        "update run set updated_at = now() - interval '1 h' where id = any(%s)", (ids[:1],)
    )
    mirror = Mirror(await call("Viewer"), 3)

    more = [await mirror.call() for _ in range(3)]

    assert more == [True, False, False]
    assert set(mirror.copy) == {str(one) for one in ids}
    assert mirror.seen == 3 + 3 + 3


async def test_a_run_that_is_swept_is_no_end_of_the_reading(made, conn, call):
    """A cursor is a place, whether or not the run is there still."""
    await made.queue(5)
    await conn.execute(AGED)
    mirror = Mirror(await call("Viewer"), 2)
    await mirror.call()
    await conn.execute("delete from procrastinate_jobs")
    await conn.execute(
        "delete from run where id = any(%s)", ([uuid.UUID(one) for one in mirror.copy],)
    )

    await mirror.to_the_end(most=3)

    assert len(mirror.copy) == 5


async def test_a_renewal_changes_no_place_and_every_other_write_does(made, conn):
    """As the reader of a copy sees it: only what an answer shows moves a run to the end."""
    await made.queue()

    async def changed():
        cursor = await conn.execute("select updated_at from run")
        return (await cursor.fetchone())[0]

    before = await changed()
    (taken,) = await claim(conn, WANTED, 1)
    claimed = await changed()
    await conn.execute("update run set lease_until = lease_until + interval '1 s'")

    assert claimed > before
    assert await changed() == claimed
    assert taken.claimed_at - claimed < timedelta(seconds=1)
