"""Deleting a workflow: with the runs that have not ended, in one transaction, or not at all."""

import asyncio

import pytest
from fix_queue import jobs_that_differ
from fix_runs import EPOCH, WEBHOOKS, add_run, add_workflow, until_blocked

from procession.engine.run import Action, Status

DONE = Action(status=Status.SUCCEEDED, attempts=1, completed_at=EPOCH)
RUNNING = Action(status=Status.RUNNING, attempts=1, started_at=EPOCH)


async def delete(client, workflow_id):
    return await client.delete(f"/api/workflows/{workflow_id}")


async def statuses(conn):
    cursor = await conn.execute(
        "select id, status, cancelled_at is not null, completed_at is not null from run"
    )
    return {run_id: rest async for run_id, *rest in cursor}


async def audited(conn):
    cursor = await conn.execute("select action, metadata from audit")
    return await cursor.fetchall()


async def test_a_delete_cancels_what_has_not_happened_and_keeps_what_has(conn, admin, workflow_id):
    other = await add_workflow(conn)
    await conn.execute(
        "insert into workflow_trigger (tenant, content_type, event, workflow_id)"
        " values ('default', 'Article', 'Published', %s)",
        (workflow_id,),
    )
    waiting, begun = [await add_run(conn, workflow_id, *one) for one in ((), (DONE, Action()))]
    held = await add_run(conn, workflow_id, RUNNING, Action())
    lapsed = await add_run(conn, workflow_id, RUNNING, Action(), live=False)
    done = await add_run(conn, workflow_id, DONE, DONE)
    spared = await add_run(conn, other)

    answer = await delete(admin, workflow_id)

    assert (answer.status_code, answer.content) == (204, b"")
    assert await statuses(conn) == {
        waiting: ["Cancelled", True, True],
        begun: ["Cancelled", True, True],
        held: ["Running", True, False],
        lapsed: ["Cancelled", True, True],
        done: ["Succeeded", False, True],
        spared: ["Pending", False, False],
    }
    assert await jobs_that_differ(conn) == []
    assert await audited(conn) == [
        ("workflow.deleted", {"name": WEBHOOKS.name, "cancelledRuns": 4})
    ]
    cursor = await conn.execute("select from workflow_trigger")
    assert cursor.rowcount == 0
    again = await delete(admin, workflow_id)
    assert (again.status_code, again.json()["code"]) == (404, "workflow-not-found")
    listed = (await admin.get("/api/workflows")).json()
    assert [one["id"] for one in listed["items"]] == [str(other)]
    version = await admin.get(f"/api/workflows/{workflow_id}/versions/1")
    assert version.status_code == 200


async def add_runs(conn, workflow_id, count):
    first = await add_run(conn, workflow_id)
    await conn.execute(
        "insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,"
        "                 entry_id, trigger, due_at, due_ordinal, due_type, actions)"
        " select tenant, gen_random_uuid(), workflow_id, workflow_version, workflow_name,"
        "        content_type, entry_id, trigger, due_at, due_ordinal, due_type, actions"
        " from run, generate_series(2, %s) where id = %s",
        (count, first),
    )


@pytest.mark.parametrize(("count", "status"), [(200, 204), (201, 409)])
async def test_a_delete_cancels_two_hundred_runs_at_most(conn, admin, workflow_id, count, status):
    await add_runs(conn, workflow_id, count)

    answer = await delete(admin, workflow_id)

    assert answer.status_code == status
    left = [one for one in (await statuses(conn)).values() if one[0] == "Pending"]
    if status == 409:
        assert answer.json()["code"] == "too-many-queued-runs"
        assert answer.json()["queuedRuns"] == 201
        assert len(left) == 201
        assert await audited(conn) == []
    else:
        assert left == []


async def test_a_delete_waits_for_who_queues_and_cancels_what_was_queued(
    conn, pool, admin, workflow_id
):
    async with pool.connection() as saver, saver.transaction():
        await saver.execute("select from workflow where id = %s for share", (workflow_id,))
        waiting = asyncio.create_task(delete(admin, workflow_id))
        await until_blocked(conn)
        queued = await add_run(saver, workflow_id)

    assert (await waiting).status_code == 204
    assert await statuses(conn) == {queued: ["Cancelled", True, True]}
    assert await jobs_that_differ(conn) == []


async def test_a_run_that_ends_meanwhile_keeps_its_end(conn, pool, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, Action(), DONE)
    async with pool.connection() as worker, worker.transaction():
        await worker.execute("select from run where id = %s for no key update", (run_id,))
        waiting = asyncio.create_task(delete(admin, workflow_id))
        await until_blocked(conn)
        await worker.execute(
            "update run set status = 'Succeeded', completed_at = now(), due_at = null,"
            " due_ordinal = null, due_type = null, version = version + 1,"
            """ actions = jsonb_set(actions, '{0,status}', '"Succeeded"') where id = %s""",
            (run_id,),
        )

    assert (await waiting).status_code == 204
    assert await statuses(conn) == {run_id: ["Succeeded", False, True]}
