"""What the sweep takes beside the delivery log: runs by their end, versions, jobs, workers."""

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from fix_runs import WEBHOOKS, add_attempt, add_run, add_worker, add_workflow, encoded

from procession.engine.run import Action, RunStatus, Status
from procession.queue import sweep as module
from procession.queue.pool import make_pool
from procession.queue.removal import REMOVE_JOBS, Removal, Windows
from procession.queue.sweep import Swept, sweep
from procession.tasks.retention import Sweeper, swept

DAYS = timedelta(days=1)
DONE = Action(status=Status.SUCCEEDED)
LOST = Action(status=Status.FAILED)
KEPT = Windows(succeeded=7 * DAYS, failed=90 * DAYS)


def ended(days, **more):
    at = datetime.now(UTC) - days * DAYS
    return {"created_at": at - timedelta(hours=1), "completed_at": at, **more}


async def ids(conn, table="run"):
    cursor = await conn.execute(f"select id from {table}")
    return {row[0] for row in await cursor.fetchall()}


async def swept_by(pool, windows=KEPT):
    return await swept(Sweeper(pool=pool, windows=windows))


@pytest.mark.parametrize(
    ("status", "days"),
    [
        (RunStatus.SUCCEEDED, 7),
        (RunStatus.FAILED, 90),
        (RunStatus.PARTIALLY_FAILED, 90),
        (RunStatus.CANCELLED, 90),
    ],
)
async def test_a_run_goes_when_it_ended_too_long_ago(conn, pool, workflow_id, status, days):
    actions = (DONE, DONE if status is RunStatus.SUCCEEDED else LOST)
    kept = await add_run(conn, workflow_id, *actions, **ended(days - 0.01, status=status))
    await add_run(conn, workflow_id, *actions, **ended(days + 0.01, status=status))

    counts = await swept_by(pool)

    assert await ids(conn) == {kept}
    assert sum(counts.total[name] for name in ("succeededRuns", "failedRuns")) == 1


async def test_an_unfinished_run_stays_however_old_it_is(conn, pool, workflow_id):
    long_ago = datetime(1990, 1, 1, tzinfo=UTC)
    waits = await add_run(conn, workflow_id, created_at=long_ago, updated_at=long_ago)
    running = (Action(status=Status.RUNNING), Action())
    goes_on = await add_run(conn, workflow_id, *running, created_at=long_ago, live=False)

    await swept_by(pool, Windows(succeeded=timedelta(seconds=1), failed=timedelta(seconds=1)))

    assert await ids(conn) == {waits, goes_on}


async def test_a_class_without_a_window_stays(conn, pool, workflow_id):
    succeeded = await add_run(conn, workflow_id, DONE, DONE, **ended(3000))
    await add_run(conn, workflow_id, DONE, LOST, **ended(3000))

    await swept_by(pool, Windows(succeeded=None))

    assert await ids(conn) == {succeeded}


async def test_a_run_takes_its_history_and_markers_along_but_no_delivery(conn, pool, workflow_id):
    run_id = await add_run(conn, workflow_id, DONE, DONE, **ended(8))
    await add_attempt(conn, run_id, 1)
    await conn.execute("insert into marker values ('default', %s, 'key')", (run_id,))
    await conn.execute(
        """insert into delivery (tenant, created_at, id, delivery_id, workflow_id, run_id, ordinal,
                                 attempt, event, method, url, request_headers, requests_sent,
                                 duration_ms)
           values ('default', now(), %(id)s, %(id)s, %(id)s, %(id)s, 0, 1, 'Created', 'POST',
                   'https://a.example', '{}', 1, 5)""",
        {"id": run_id},
    )

    await swept_by(pool)

    cursor = await conn.execute(
        "select (select count(*) from attempt), (select count(*) from marker),"
        " (select count(*) from delivery)"
    )
    assert await cursor.fetchone() == (0, 0, 1)


async def test_a_run_that_somebody_has_locked_is_passed_over(conn, pool, database, workflow_id):
    held = await add_run(conn, workflow_id, DONE, LOST, **ended(91))
    await add_run(conn, workflow_id, DONE, LOST, **ended(92))
    with psycopg.connect(database.conninfo) as other:
        other.execute("select from run where id = %s for no key update", (held,))
        await swept_by(pool)
        assert await ids(conn) == {held}


async def test_each_tenant_reads_what_the_sweep_took_of_it(conn, pool, workflow_id, caplog):
    caplog.set_level(logging.INFO)
    theirs = await add_workflow(conn, tenant="acme")
    for _ in range(3):
        await add_run(conn, workflow_id, DONE, DONE, **ended(8))
    await add_run(conn, workflow_id, DONE, LOST, **ended(91))
    await add_run(conn, theirs, DONE, DONE, tenant="acme", **ended(8))

    await swept_by(pool)

    cursor = await conn.execute(
        "select tenant, action, actor, target_id, metadata from audit order by tenant"
    )
    assert await cursor.fetchall() == [
        ("acme", "retention.swept", None, "acme", {"succeededRuns": 1}),
        ("default", "retention.swept", None, "default", {"succeededRuns": 3, "failedRuns": 1}),
    ]
    assert [one.message for one in caplog.records if "Swept" in one.message] == [
        "Swept: succeededRuns 4, failedRuns 1"
    ]


async def test_a_sweep_that_takes_nothing_leaves_no_audit_entry(conn, pool, workflow_id):
    await add_run(conn, workflow_id)

    counts = await swept_by(pool)

    assert str(counts) == "nothing"
    assert await ids(conn, "audit") == set()


TOLD = "select tenant, metadata from audit where action = 'retention.swept' order by at"
STANDS_STILL = """
    select 'default' from pg_sleep(60)
    where %(batch)s is not null and %(older)s::interval is not null
"""


@dataclass(frozen=True)
class Stopping(Windows):
    """Windows by which a sweep comes to stand still behind the runs."""

    @property
    def removals(self):
        runs = [one for one in super().removals if one.name.endswith("Runs")]
        return [*runs, Removal("nothing", STANDS_STILL, timedelta())]


async def until_none_is_left(conn):
    async with asyncio.timeout(10):
        while True:
            if not await ids(conn):
                break
            await asyncio.sleep(0.01)


async def test_a_sweep_that_is_stopped_tells_what_it_took(conn, pool, workflow_id, caplog):
    caplog.set_level(logging.INFO)
    for _ in range(3):
        await add_run(conn, workflow_id, DONE, DONE, **ended(8))

    sweeping = asyncio.create_task(swept_by(pool, Stopping()))
    await until_none_is_left(conn)
    sweeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweeping

    assert await (await conn.execute(TOLD)).fetchall() == [("default", {"succeededRuns": 3})]
    assert [one.message for one in caplog.records if one.name.endswith("retention")] == [
        "The sweep was stopped",
        "Swept: succeededRuns 3",
    ]


async def test_what_a_sweep_took_that_was_killed_is_told_by_the_next_tick(
    conn, pool, database, workflow_id
):
    for days in (8, 91):
        await add_run(conn, workflow_id, DONE, DONE, **ended(days))
    await add_run(conn, workflow_id, DONE, LOST, **ended(91))

    sweeping = asyncio.create_task(swept_by(pool, Stopping()))
    await until_none_is_left(conn)
    await conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    await sweeping
    assert await (await conn.execute(TOLD)).fetchall() == []

    async with make_pool(database) as of_another:
        for _ in range(2):
            assert await swept_by(of_another) is None  # in the same hour: none begins

    assert await (await conn.execute(TOLD)).fetchall() == [
        ("default", {"succeededRuns": 2, "failedRuns": 1})
    ]


async def version(conn, workflow_id, number, age=1 * DAYS):
    await conn.execute(
        """insert into workflow_version (tenant, workflow_id, version, definition, created_at)
           values ('default', %s, %s, %s, now() - %s::interval)""",
        (workflow_id, number, encoded(WEBHOOKS), age),
    )
    await conn.execute("update workflow set version = %s where id = %s", (number, workflow_id))


async def versions(conn):
    cursor = await conn.execute("select version from workflow_version order by version")
    return [row[0] for row in await cursor.fetchall()]


async def test_versions_that_nothing_names_go(conn, pool, workflow_id):
    await conn.execute("update workflow_version set created_at = now() - interval '9 days'")
    for number, days in ((2, 8), (3, 5), (4, 4)):
        await version(conn, workflow_id, number, days * DAYS)
    named = {"workflow_version": 2, **ended(6)}
    await add_run(conn, workflow_id, DONE, LOST, **named)

    counts = await swept_by(pool)

    assert await versions(conn) == [2, 4]
    assert counts.total["versions"] == 2


async def test_the_version_of_a_deleted_workflow_stays_while_a_run_names_it(
    conn, pool, workflow_id
):
    run_id = await add_run(conn, workflow_id, DONE, LOST, **ended(1))
    await conn.execute("update workflow_version set created_at = now() - interval '9 days'")
    await conn.execute("update workflow set deleted_at = now()")

    await swept_by(pool)
    assert await versions(conn) == [1]

    await conn.execute("delete from run where id = %s", (run_id,))
    await conn.execute("delete from sweep")
    await swept_by(pool)
    assert await versions(conn) == []


async def test_no_version_goes_that_a_run_names_though_it_was_saved_long_after(
    conn, pool, workflow_id
):
    """A save waits for whoever queues, and has its time from when it began."""
    await conn.execute("update workflow_version set created_at = now() - interval '9 days'")
    await version(conn, workflow_id, 2, 2 * DAYS)
    late = datetime.now(UTC) - 2 * DAYS + timedelta(minutes=10)
    await add_run(conn, workflow_id, DONE, LOST, created_at=late, completed_at=late)

    await swept_by(pool)

    assert await versions(conn) == [1, 2]


JOBS = """
    with made as (
        insert into procrastinate_jobs (queue_name, task_name, status)
        values ('maintenance', %(name)s, %(status)s) returning id
    )
    insert into procrastinate_events (job_id, type, at)
    select id, 'started', now() - %(age)s::interval from made
"""


async def test_jobs_that_ended_over_an_hour_ago_go_and_so_do_those_of_dead_workers(conn, pool):
    old, new = timedelta(minutes=61), timedelta(minutes=59)
    for status in ("failed", "succeeded", "doing"):
        for name, age in (("old", old), ("new", new)):
            await conn.execute(JOBS, {"name": name, "status": status, "age": age})
    await conn.execute(JOBS, {"name": "waits", "status": "todo", "age": old})
    await conn.execute("delete from procrastinate_events where type <> 'started'")

    counts = await swept_by(pool)

    cursor = await conn.execute(
        "select task_name, count(*) from procrastinate_jobs group by 1 order by 1"
    )
    assert await cursor.fetchall() == [("new", 3), ("waits", 1)]
    assert counts.total["jobs"] == 3


async def test_workers_that_have_been_silent_for_an_hour_are_forgotten(conn, pool):
    await add_worker(conn, silent_for=3601)
    await add_worker(conn, silent_for=3590)

    counts = await swept_by(pool)

    assert counts.total["workers"] == 1
    assert len(await ids(conn, "worker")) == 1


SLOW = """
    select 'default' from generate_series(1, %(batch)s)
    where pg_sleep(0.2) is not null and %(older)s::interval is not null
"""


async def test_a_batch_that_takes_too_long_is_made_smaller(conn, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 8)
    monkeypatch.setattr(module, "BATCHES", 3)
    await conn.execute("set statement_timeout = '1s'")

    counts = Swept()
    await sweep(conn, [Removal("rows", SLOW, timedelta())], counts)

    assert counts.total["rows"] == 4 + 4
    await conn.execute("reset statement_timeout")


async def test_one_alone_has_more_time_and_what_comes_after_it_has_not(conn, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "BATCHES", 4)
    await conn.execute("set statement_timeout = '100ms'")

    counts = Swept()
    await sweep(conn, [Removal("rows", SLOW, timedelta())], counts)

    assert counts.total["rows"] == 2
    assert await (await conn.execute("show statement_timeout")).fetchone() == ("1s",)
    await conn.execute("reset statement_timeout; reset lock_timeout")


async def test_what_takes_too_long_alone_is_left_and_the_rest_goes_on(conn, monkeypatch, caplog):
    monkeypatch.setattr(module, "BATCH", 1)
    monkeypatch.setattr(module, "BATCHES", 2)
    await add_worker(conn, silent_for=3601)
    await conn.execute("set statement_timeout = '100ms'")

    counts = Swept()
    (workers,) = [one for one in Windows().removals if one.name == "workers"]
    await sweep(conn, [Removal("rows", SLOW, timedelta()), workers], counts)

    assert counts.total["workers"] == 1
    assert "One of the rows takes the sweep too long, and stays" in caplog.text
    await conn.execute("reset statement_timeout")


async def test_the_sweep_leaves_the_connection_as_the_pool_has_it(pool, database):
    async with pool.connection() as conn:
        before = await (await conn.execute("show statement_timeout")).fetchone()

    for _ in range(database.pool_max):
        await swept_by(pool)

    async with pool.connection() as conn:
        after = await (await conn.execute("show statement_timeout")).fetchone()
    assert after == before


async def test_jobs_that_wait_are_not_read_to_find_those_that_ended(database, conn):
    many = "insert into procrastinate_jobs (queue_name, task_name) select 'q', 't' from {}"
    await conn.execute(many.format("generate_series(1, 5000)"))
    await conn.execute("analyze procrastinate_jobs")
    worker = replace(database, prefer_indexes=True)
    wanted = {"older": timedelta(hours=1), "batch": 500}

    async with await psycopg.AsyncConnection.connect(worker.conninfo) as one:
        cursor = await one.execute(f"explain {REMOVE_JOBS}", wanted)
        plan = "\n".join([row[0] for row in await cursor.fetchall()])

    assert "procrastinate_jobs_finished" in plan
    assert "Seq Scan on procrastinate_jobs" not in plan


async def test_one_that_is_to_go_to_the_end_does(conn, workflow_id, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module, "BATCHES", 2)
    for _ in range(9):
        await add_run(conn, workflow_id, DONE, DONE, **ended(8))

    counts = Swept()
    await sweep(conn, KEPT.removals, counts, to_the_end=True)

    assert counts.total["succeededRuns"] == 9
