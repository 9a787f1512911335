"""`procession sweep`: what is too old goes at once, and one sweep at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from fix_runs import add_run

from procession.engine.run import Action, Status
from procession.queue.sweep import alone

pytestmark = pytest.mark.slow

DONE = Action(status=Status.SUCCEEDED)


async def test_a_sweep_that_is_asked_for_needs_no_hour_to_have_gone_by(
    command, database, conn, workflow_id
):
    ended = datetime.now(UTC) - timedelta(days=8)
    for _ in range(3):
        await add_run(conn, workflow_id, DONE, DONE, created_at=ended, completed_at=ended)
    kept = await add_run(conn, workflow_id, DONE, DONE, created_at=ended)
    await conn.execute("update run set completed_at = now() where id = %s", (kept,))
    await conn.execute("insert into sweep values ('retention', clock_timestamp())")

    process = await command("procession", "sweep", DATABASE_URL=database.url)

    assert (await process.ended(), process.said) == (0, ["Swept: succeededRuns 3"])
    cursor = await conn.execute("select id from run")
    assert await cursor.fetchall() == [(kept,)]
    cursor = await conn.execute("select action, metadata from audit")
    assert await cursor.fetchall() == [("retention.swept", {"succeededRuns": 3})]


async def test_while_a_worker_sweeps_it_says_so(command, database, pool):
    async with alone(pool):
        process = await command("procession", "sweep", DATABASE_URL=database.url)

        assert await process.ended() == 1
    assert process.said == ["procession: A worker sweeps at this moment."]
