"""A verb for many runs, whose worker is killed in the middle of a batch."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from fix_queue import jobs_that_differ
from fix_races import opened
from fix_runs import JOB, add_run, add_workflow, until_blocked

from procession.engine.run import Action
from procession.queue.save import MANY

pytestmark = pytest.mark.slow

LATER = datetime.now(UTC) + timedelta(hours=1)
COPY = """
    insert into run
    select (jsonb_populate_record(run, jsonb_build_object(
                'id', gen_random_uuid(), 'created_at', created_at + number * interval '1 s'))).*
    from run, generate_series(1, %s) as number
"""
JOBS = JOB.replace("id = %(id)s and ", "id <> %(id)s and ")
NTH = "select id from run order by created_at offset %s limit 1"
LOCK = "select from run where id = %s for update"
LAPSE = "update bulk set lease_until = now() - interval '1 s' where token is not null"
CANCELLED = """
    select count(*) filter (where status = 'Cancelled' and version = 2), count(*) from run
"""


async def cancelled(conn):
    return await (await conn.execute(CANCELLED)).fetchone()


async def until(client, where, so, seconds=100):
    """How it stands once that is so; a minute's tick calls for what was left behind."""
    async with asyncio.timeout(seconds):
        while True:
            standing = (await client.get(where)).json()
            if so(standing):
                return standing
            await asyncio.sleep(0.1)


@pytest.mark.timeout(180)
async def test_what_a_killed_worker_left_is_finished_each_run_done_once(
    admin, work, conn, database
):
    flow = await add_workflow(conn)
    waits = Action(attempts=1, failures=1, next_attempt_at=LATER)
    first = await add_run(conn, flow, waits, waits, created_at=LATER - timedelta(days=1))
    await conn.execute(COPY, [3 * MANY - 1])
    await conn.execute(JOBS, {"id": first})
    ((middle,),) = await (await conn.execute(NTH, [3 * MANY // 2])).fetchall()
    killed = await work()
    async with opened(database, 1) as (holder,):
        async with holder.transaction():
            await holder.execute("set local idle_in_transaction_session_timeout = 0")
            await holder.execute(LOCK, [middle])
            chosen = {"filter": {"workflowId": str(flow)}}
            asked = await admin.post("/api/workflow-runs/bulk/cancel", json=chosen)
            where = asked.headers["location"]
            await until(admin, where, lambda standing: standing["done"] == MANY)
            await until_blocked(conn)
            await killed.kill()
        left = (await admin.get(where)).json()
        so_far, _ = await cancelled(conn)
        await conn.execute(LAPSE)
        await work()
        ended = await until(admin, where, lambda standing: standing["finishedAt"])

    assert (left["status"], left["done"], so_far) == ("Running", MANY, MANY)
    counts = [ended[name] for name in ("status", "matched", "done", "changed", "refused")]
    assert counts == ["Done", 3 * MANY, 3 * MANY, 3 * MANY, {}]
    assert await cancelled(conn) == (3 * MANY, 3 * MANY)
    assert await jobs_that_differ(conn) == []
    entries = (await admin.get("/api/audit?action=workflow.runs.bulk")).json()["items"]
    assert [(one["targetId"], one["metadata"]["changed"]) for one in entries] == [
        (ended["id"], 3 * MANY)
    ]
