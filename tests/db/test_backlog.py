"""What waits is measured now and then, by one worker, and shown by all of them."""

import asyncio
import logging
from datetime import timedelta

import pytest
from fix_metrics import Counted
from fix_queue import WANTED, age

from procession.queue import backlog as module
from procession.queue.backlog import begin, measure, measured
from procession.queue.claim import claim
from procession.queue.types import Beaten, Claimed, Measured, Recorded
from procession.tasks.backlog import BACKLOG, LIMIT, Measurer

SECOND = timedelta(seconds=1)
GAUGES = {
    ("due_runs",),
    ("oldest_due_run_age_seconds",),
    ("lapsed_leases",),
    ("oldest_lapsed_lease_age_seconds",),
    ("backlog_measured_timestamp_seconds",),
}


async def look(conn, kept):
    """What a measurement of now finds."""
    await begin(conn, timedelta())
    await measure(conn, WANTED.types, LIMIT)
    return await asyncio.to_thread(measured, kept)


async def test_nothing_waits_in_an_empty_database(conn, kept):
    assert await asyncio.to_thread(measured, kept) is None

    found = await look(conn, kept)

    assert (found.due_runs, found.oldest_due_age) == (0, 0)
    assert (found.lapsed_leases, found.oldest_lapsed_age) == (0, 0)


async def test_what_could_be_claimed_counts_from_when_it_was_queued_first(conn, kept, make):
    for tenant, count in (("acme", 2), ("bravo", 3)):
        await (await make("Safe", tenant=tenant)).queue(count)
    await age(conn, created_at=100)
    await conn.execute(  # of its fifth attempt, and due since a moment ago
        "update run set created_at = created_at - interval '900 s' where tenant = 'bravo'"
    )

    found = await look(conn, kept)

    assert found.due_runs == 5
    assert 1000 <= found.oldest_due_age < 1010


@pytest.mark.parametrize(
    "change",
    [
        "update run set due_at = now() + interval '1 minute'",  # it waits on back-off
        "update run set executor = 'elsewhere'",
        "update run set document_format = 999",
        "update run set due_type = 'Nobody''s'",
        "update workflow set enabled = false",
    ],
)
async def test_what_could_not_be_claimed_does_not_count(conn, kept, make, change):
    await (await make("Safe")).queue(2)
    await conn.execute(change)

    assert await claim(conn, WANTED, 5) == []
    assert (await look(conn, kept)).due_runs == 0


async def test_leases_that_lapsed_count_until_they_are_rescued(conn, kept, make):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 2)
    assert (await look(conn, kept)).lapsed_leases == 0
    await age(conn, lease_until=75)

    found = await look(conn, kept)

    assert (found.due_runs, found.lapsed_leases) == (1, 2)
    assert 60 <= found.oldest_lapsed_age < 70


async def test_of_many_workers_one_measures_and_not_before_its_time(conn, pool):
    async def one():
        async with pool.connection() as mine:
            return await begin(mine, 30 * SECOND)

    assert sum(await asyncio.gather(*(one() for _ in range(8)))) == 1
    await conn.execute("update backlog set begun_at = begun_at - interval '29 s'")
    assert not await one()
    await conn.execute("update backlog set begun_at = begun_at - interval '2 s'")
    assert await one()


@pytest.fixture
def locked(pool):
    """Makes a measurement wait for as long as it may."""

    async def hold(measurer):
        async with pool.connection() as other, other.transaction():
            await other.execute("lock table run in access exclusive mode")
            await measurer.look()

    return hold


def hurried(pool, **more):
    return Measurer(
        pool=pool, types=WANTED.types, every=timedelta(), **{"limit": 0.2 * SECOND} | more
    )


async def test_one_that_takes_too_long_is_stopped_and_leaves_what_there_was(  # noqa: PLR0913, PLR0917  its fixtures
    conn, kept, pool, make, locked, caplog
):
    await (await make("Safe")).queue(2)
    before = await look(conn, kept)
    await (await make("Safe")).queue(2)

    await locked(hurried(pool))

    assert await asyncio.to_thread(measured, kept) == before
    assert "The backlog cannot be measured: QueryCanceled" in caplog.text


async def test_the_time_is_the_servers_to_keep_and_the_pools_is_its_own_again(conn, pool):
    async with conn.transaction():
        await conn.execute(module.STOPPED_AFTER, {"milliseconds": "10000"})
        cursor = await conn.execute("show statement_timeout")
        assert await cursor.fetchone() == ("10s",)
    cursor = await conn.execute("show statement_timeout")
    assert await cursor.fetchone() == ("30s",)
    assert Measurer(pool=pool, types=()).limit == timedelta(seconds=10)


async def test_failures_are_told_of_when_they_begin_and_then_in_five_minutes(
    pool, locked, caplog, monkeypatch
):
    now = 1000.0
    monkeypatch.setattr("procession.tasks.backlog.monotonic", lambda: now)
    measurer = hurried(pool, limit=0.05 * SECOND)
    told = []
    for seconds in (0, 299, 1, 1):
        now += seconds
        caplog.clear()
        await locked(measurer)
        told.append(len(caplog.records))
    assert told == [1, 0, 1, 0]

    measurer.limit = LIMIT
    await measurer.look()  # which works
    measurer.limit = 0.05 * SECOND
    caplog.clear()
    await locked(measurer)

    ((name, level, text),) = caplog.record_tuples
    assert (name, level) == ("procession.tasks.backlog", logging.WARNING)
    assert text == "The backlog cannot be measured: QueryCanceled"


async def test_who_may_not_measure_does_not(conn, pool):
    await Measurer(pool=pool, types=WANTED.types, every=None).look()

    cursor = await conn.execute("select count(*) from backlog")
    assert await cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [(1, "* * * * * */5"), (30, "* * * * * */5"), (60, "* * * * * */5"), (61, "* * * * *")],
)
def test_it_is_looked_at_often_enough(seconds, ticks):
    assert Measurer(pool=None, types=(), every=seconds * SECOND).ticks == ticks


async def test_every_worker_shows_what_one_has_measured(make, worked, counted):
    await (await make("Nobody's")).queue()
    other = Counted("Safe")
    async with worked.working(backlog_every=SECOND):
        worked.heard = other
        async with worked.working(backlog_every=SECOND):
            await counted.wait(Measured, seconds=20)
            await other.wait(Measured, seconds=20)

    assert counted.now().keys() >= GAUGES
    assert other.now().keys() >= GAUGES


@pytest.mark.parametrize("options", [{"backlog_every": None}, {"enabled": False}])
async def test_a_worker_that_does_not_measure_publishes_no_gauges(conn, worked, counted, options):
    await begin(conn, SECOND)
    await measure(conn, WANTED.types, LIMIT)
    async with worked.working(**{"backlog_every": SECOND} | options):
        await counted.wait(Beaten, 2)

    assert counted.now().keys() & GAUGES == set()


QUEUED = """
    insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args)
    values ('maintenance', 'backlog', 'backlog', '{"timestamp": 1}')
    on conflict do nothing
"""


async def test_a_worker_whose_slots_are_taken_measures_all_the_same(conn, make, worked, counted):
    await (await make("Safe")).queue(3)
    worked.safe.gate.clear()
    async with worked.working(concurrency=2, backlog_every=timedelta(hours=1)):
        await counted.wait(Claimed)
        await conn.execute(QUEUED)
        (told,) = await counted.wait(Measured, seconds=20)
        worked.safe.gate.set()
        await counted.wait(Recorded, 3)

    assert told.backlog.due_runs == 1
    assert BACKLOG == "backlog"


async def test_one_that_does_not_measure_takes_the_task_and_leaves_it(conn, worked, caplog):
    async with worked.working(enabled=False):
        await worked.heard.wait(Beaten)
        await conn.execute(QUEUED)
        async with asyncio.timeout(10):
            while True:
                cursor = await conn.execute(
                    "select from procrastinate_jobs where task_name = 'backlog'"
                )
                if not cursor.rowcount:
                    break
                await asyncio.sleep(0.02)  # nothing tells of it

    assert caplog.record_tuples == []
