"""What was kept long enough goes, a little at a time, by one worker in an hour."""

import asyncio
import uuid
from datetime import timedelta
from time import monotonic

import pytest
from fix_queue import Heard
from psycopg.types.json import Jsonb

from procession.queue import sweep as module
from procession.queue.removal import Windows
from procession.queue.sweep import alone
from procession.queue.types import Claimed
from procession.tasks.retention import CRON, FIRST_WAIT, RETENTION, Sweeper, swept

ADD = """
    insert into delivery (tenant, created_at, id, delivery_id, workflow_id, run_id, ordinal,
                          attempt, event, method, url, request_headers, response_status,
                          response_body, requests_sent, duration_ms)
    select %(tenant)s, clock_timestamp() - %(age)s::interval - number * interval '1 ms',
           gen_random_uuid(), %(id)s, %(id)s, %(id)s, 0, 1, 'Created', 'POST', 'https://a.example',
           %(headers)s, 200, 'thanks', 1, 5
    from generate_series(1, %(count)s) as number
"""
HOURS, DAYS = timedelta(hours=1), timedelta(days=1)


async def add(conn, age, count=1, tenant="default"):
    values = {"id": uuid.uuid4(), "headers": Jsonb({}), "tenant": tenant}
    await conn.execute(ADD, values | {"age": age, "count": count})


async def stands(conn):
    cursor = await conn.execute(
        "select count(*), count(response_body), count(response_body_cleared_at) from delivery"
    )
    return await cursor.fetchone()


async def begun(conn, ago=None):
    if ago is not None:
        await conn.execute(
            "insert into sweep values ('retention', clock_timestamp() - %s::interval)"
            " on conflict (name) do update set begun_at = excluded.begun_at",
            (ago,),
        )
    cursor = await conn.execute("select clock_timestamp() - begun_at from sweep")
    return (await cursor.fetchone())[0]


def sweeper(pool, **windows):
    return Sweeper(pool=pool, windows=Windows(**windows))


async def test_bodies_are_cleared_and_rows_go_when_they_are_old(conn, pool):
    for age in (23 * HOURS, 25 * HOURS, 29 * DAYS, 31 * DAYS):
        await add(conn, age)
        await add(conn, age, tenant="acme")

    counts = await swept(sweeper(pool))

    assert (counts.total["responseBodies"], counts.total["deliveries"]) == (6, 2)
    assert await stands(conn) == (6, 2, 4)


async def test_without_a_window_rows_stay(conn, pool):
    await add(conn, 3000 * DAYS)

    await swept(sweeper(pool, bodies=timedelta(), deliveries=None))

    assert await stands(conn) == (1, 0, 1)


async def test_a_sweep_takes_no_more_than_its_batches_the_oldest_first(conn, pool, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 5)
    monkeypatch.setattr(module, "BATCHES", 3)
    await add(conn, 40 * DAYS, 10)
    await add(conn, 50 * DAYS, 10, tenant="acme")

    counts = await swept(sweeper(pool))

    assert (counts.total["responseBodies"], counts.total["deliveries"]) == (15, 15)
    cursor = await conn.execute("select tenant, count(*) from delivery group by tenant")
    assert await cursor.fetchall() == [("default", 5)]


@pytest.mark.parametrize(("ago", "begins"), [(59, False), (61, True)])
async def test_a_sweep_begins_once_in_an_hour(conn, pool, ago, begins):
    await begun(conn, timedelta(minutes=ago))

    counts = await swept(sweeper(pool))

    assert (counts is not None) is begins
    assert (await begun(conn) < timedelta(minutes=1)) is begins


async def test_of_many_workers_one_sweeps(conn, pool):
    await add(conn, 40 * DAYS)

    counts = await asyncio.gather(*(swept(sweeper(pool)) for _ in range(8)))

    assert [one.total["deliveries"] for one in counts if one is not None] == [1]


async def test_nobody_waits_for_who_sweeps(conn, pool):
    async with alone(pool) as first:
        await begun(conn, 2 * HOURS)
        async with alone(pool) as second:
            assert (first is not None, second) == (True, None)

    async with alone(pool) as third:
        assert third is not None


async def test_a_sweep_that_fails_is_gone_on_with_an_hour_later(conn, pool, caplog):
    await add(conn, 40 * DAYS, 3)
    await conn.execute(
        "alter table delivery add constraint never check (response_body is not null)"
    )
    try:
        counts = await swept(sweeper(pool))
    finally:
        await conn.execute("alter table delivery drop constraint never")

    assert (counts.total["responseBodies"], counts.total["deliveries"]) == (0, 0)
    assert "The sweep ended early: CheckViolation" in caplog.text
    await begun(conn, 2 * HOURS)
    assert (await swept(sweeper(pool))).total["deliveries"] == 3


async def test_a_sweep_has_its_time_and_leaves_the_lock_behind_it(conn, pool, caplog):
    await add(conn, 40 * DAYS)
    hurried = Sweeper(pool=pool, limit=timedelta(seconds=0.2))
    async with pool.connection() as other, other.transaction():
        await other.execute("lock table delivery in access exclusive mode")
        counts = await swept(hurried)

    assert (counts.total["responseBodies"], counts.total["deliveries"]) == (0, 0)
    assert "The sweep ended early: TimeoutError" in caplog.text
    await begun(conn, 2 * HOURS)
    assert (await swept(sweeper(pool))).total["deliveries"] == 1


def test_a_worker_that_has_just_started_waits():
    fresh = Sweeper(pool=None)
    old = Sweeper(pool=None, started=monotonic() - FIRST_WAIT.total_seconds())

    assert (fresh.is_fresh, old.is_fresh) == (True, False)


QUEUED = """
    insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args)
    values ('maintenance', 'retention', 'retention', '{"timestamp": 1}')
"""


async def test_a_worker_whose_slots_are_taken_sweeps_all_the_same(conn, make, worked, monkeypatch):
    monkeypatch.setattr("procession.tasks.retention.FIRST_WAIT", timedelta())
    await add(conn, 40 * DAYS)
    await (await make("Safe")).queue(3)
    worked.safe.gate.clear()
    async with worked.working(concurrency=2):
        await worked.heard.wait(Claimed)
        await conn.execute("delete from procrastinate_jobs where task_name = 'retention'")
        await begun(conn, 2 * HOURS)
        await conn.execute(QUEUED)
        async with asyncio.timeout(10):
            while await stands(conn) != (0, 0, 0):  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.02)
        worked.safe.gate.set()


async def test_each_tick_is_one_job_of_all_workers(conn, worked):
    assert isinstance(worked.heard, Heard)
    async with worked.working(enabled=False), worked.working(enabled=False):
        async with asyncio.timeout(10):
            while True:
                cursor = await conn.execute(
                    "select task_name, count(*) from procrastinate_periodic_defers"
                    " where task_name = 'retention' group by 1"
                )
                if rows := await cursor.fetchall():
                    break
                await asyncio.sleep(0.02)

    assert (RETENTION, CRON) == ("retention", "* * * * *")
    assert rows == [("retention", 1)]
