"""Who waits for whom: one session holds a row, and another is seen to wait for it."""

import asyncio
import contextlib
import uuid

import pytest
from fix_queue import WANTED, age, jobs_that_differ
from fix_races import BY, deadlocks, opened, recording, target, told
from fix_runs import until_blocked
from psycopg.errors import DeadlockDetected

from procession.engine.change import Key
from procession.engine.errors import ConflictError
from procession.engine.outcome import Failed, Succeeded
from procession.engine.precondition import Precondition
from procession.queue import commands, entries, workflow_changes, workflows
from procession.queue.claim import claim
from procession.queue.mend import Place, mend
from procession.queue.record import Ended
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.start import Origin
from procession.queue.stored_run import one

SAVE = {"status": "Draft", "data": {"title": "Two"}}
HELD_WORKFLOW = "select from workflow for update"
HELD_RUN = "select from run for no key update"


@pytest.fixture
async def failed(conn, pool, make):
    """A workflow and a run of it that failed."""
    made = await make("Safe")
    (run_id,) = await made.queue()
    (taken,) = await claim(conn, WANTED, 1)
    async with recording(pool) as recorder:
        assert await recorder.record(taken, Ended(Failed("400"), 1))
    return made, run_id


@pytest.fixture
async def other(database):
    """A session of somebody else's."""
    async with opened(database, 1) as (session,):
        yield session


@contextlib.asynccontextmanager
async def waits(conn, other, held, doing):
    """What is done waits for this row, and goes on when the block, in which it is held, ends."""
    async with other.transaction():
        await other.execute(held)
        task = asyncio.create_task(doing)
        await until_blocked(conn)
        yield task


async def retries(conn, run_id):
    try:
        return await commands.retry(conn, target(run_id), 0)
    except ConflictError as refused:
        return refused.code


async def test_a_retry_waits_for_a_delete_and_is_refused(conn, pool, other, failed):
    made, run_id = failed
    async with pool.connection() as mine:
        async with other.transaction():
            await workflow_changes.delete(other, "default", made.id, BY)
            retrying = asyncio.create_task(retries(mine, run_id))
            await until_blocked(conn)
        assert await retrying == "workflow-deleted"


async def test_a_delete_waits_for_a_retry_and_cancels_what_it_queued(conn, pool, other, failed):
    made, run_id = failed
    async with pool.connection() as mine:
        async with other.transaction():
            await commands.retry(other, target(run_id), 0)
            deleting = asyncio.create_task(workflow_changes.delete(mine, "default", made.id, BY))
            await until_blocked(conn)
        await deleting
    assert (await one(conn, "default", run_id)).status == "Cancelled"
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize("command", [commands.retry, commands.abandon])
async def test_what_may_start_work_holds_no_run_while_it_waits_for_the_workflow(
    conn, pool, other, failed, command
):
    _, run_id = failed
    given = (0,) if command is commands.retry else ()
    async with pool.connection() as mine:
        async with waits(conn, other, HELD_WORKFLOW, command(mine, target(run_id), *given)) as task:
            await other.execute(f"{HELD_RUN} nowait")
        with contextlib.suppress(ConflictError):
            await task


async def test_a_delete_holds_no_run_while_it_waits_for_the_workflow(conn, pool, other, failed):
    made, _ = failed
    async with pool.connection() as mine:
        doing = workflow_changes.delete(mine, "default", made.id, BY)
        async with waits(conn, other, HELD_WORKFLOW, doing) as task:
            await other.execute(f"{HELD_RUN} nowait")
        await task


async def saves(conn):
    return await entries.put(
        conn, Key("default", "article", "a1"), SAVE, Precondition(), Origin(BY.actor)
    )


FIRED = """
    insert into workflow_trigger (tenant, content_type, event, workflow_id)
    select tenant, 'article', 'Updated', id from workflow
"""


@pytest.mark.parametrize("change", ["enabled = false", "deleted_at = now()"])
async def test_nothing_is_queued_once_a_switch_off_or_a_delete_is_saved(
    conn, pool, other, make, change
):
    await make("Safe")
    await conn.execute(FIRED)
    async with pool.connection() as mine:
        async with waits(conn, other, HELD_WORKFLOW, saves(mine)) as saving:
            await other.execute(f"update workflow set {change}")
        saved = await saving
    assert saved.fired.run_ids == ()
    assert await (await conn.execute("select count(*) from run")).fetchone() == (0,)


@pytest.mark.parametrize("second", [commands.cancel, commands.force_end])
async def test_a_command_waits_for_another_and_decides_on_what_it_left(
    conn, pool, other, make, second
):
    made = await make("Safe")
    (run_id,) = await made.queue()
    async with pool.connection() as mine:
        async with other.transaction():
            await commands.cancel(other, target(run_id))
            coming = asyncio.create_task(second(mine, target(run_id)))
            await until_blocked(conn)
        with pytest.raises(ConflictError, match="finished"):
            await coming


async def test_an_outcome_waits_for_a_command_and_is_decided_anew(conn, pool, other, make):
    made = await make("Safe", "Safe")
    (run_id,) = await made.queue()
    (taken,) = await claim(conn, WANTED, 1)
    async with recording(pool) as recorder:
        async with other.transaction():
            await commands.cancel(other, target(run_id))
            recording_it = asyncio.create_task(recorder.record(taken, Ended(Succeeded(), 1)))
            await until_blocked(conn)
        step = await recording_it
    assert step.run.cancelled_at is not None
    found = await one(conn, "default", run_id)
    assert [action.status for action in found.actions] == ["Succeeded", "Cancelled"]


async def test_picks_rescues_stops_and_mends_wait_for_nobody(conn, kept, other, make):
    made = await make("Safe")
    lapsed, due = await made.queue(2)
    await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    await conn.execute("delete from procrastinate_jobs where lock = %s", (f"run:{due}",))
    kept.execute("set lock_timeout = '1s'")
    await conn.execute("set lock_timeout = '1s'")

    async with other.transaction():
        await other.execute(HELD_RUN)
        assert await claim(conn, WANTED, 5) == []
        await conn.execute("update workflow set enabled = false")
        await other.execute(HELD_WORKFLOW)
        for work in (rescue, stop_switched_off):
            assert await asyncio.to_thread(work, kept) == []
        await asyncio.to_thread(mend, kept, Place())
    await conn.execute("reset lock_timeout")

    assert [one.run_id for one in await asyncio.to_thread(rescue, kept)] == [lapsed]
    stopped = await asyncio.to_thread(stop_switched_off, kept)
    assert {one.run_id for one in stopped} == {lapsed, due}


async def test_a_deadlock_would_be_counted(database, conn):
    before = await deadlocks(conn)
    ids = [uuid.uuid4(), uuid.uuid4()]
    for workflow_id in ids:
        await conn.execute(
            "insert into workflow (tenant, id, name) values ('default', %s, '')", (workflow_id,)
        )
    first_is_held = asyncio.Barrier(2)

    async def take(session, first, second):
        async with session.transaction():
            await workflows.lock(session, "default", first)
            await first_is_held.wait()
            await workflows.lock(session, "default", second)

    async with opened(database, 2) as (one, other):
        left = await asyncio.gather(
            take(one, *ids), take(other, *ids[::-1]), return_exceptions=True
        )
        processes = [one.info.backend_pid, other.info.backend_pid]
    await told(conn, processes)

    assert [type(x) for x in left if x is not None] == [DeadlockDetected]
    assert await deadlocks(conn) == before + 1
