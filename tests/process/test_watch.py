"""`procession runs watch`, as somebody has it open in a terminal."""

import json
import signal
from datetime import UTC, datetime

import pytest
from fix_runs import add_run, add_workflow

from procession.engine.run import Action, Status

FAILED = Action(status=Status.FAILED, attempts=1, failures=1, retryable=False)
BEHIND = Action(status=Status.SKIPPED, halted_by=0)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
TOUCH = "update run set updated_at = clock_timestamp(), workflow_name = %s where id = %s"


@pytest.mark.parametrize("form", [[], ["--json"]])
async def test_all_runs_are_watched_from_now_on_each_change_told_once(remote, command, conn, form):
    old = await add_run(conn, await add_workflow(conn), FAILED, BEHIND, updated_at=LONG_AGO)
    where = {"PROCESSION_URL": remote.url, "PROCESSION_KEY": remote.key}
    run_id = await add_run(conn, await add_workflow(conn), FAILED, BEHIND)
    await conn.execute(TOUCH, ["First", run_id])
    watching = await command("procession", "runs", "watch", *form, **where)
    first = await watching.until("First")
    other = await add_run(conn, await add_workflow(conn), FAILED, BEHIND, updated_at=LONG_AGO)
    for name in ("Second", "Third", "Fourth"):  # a look for each, in which the first comes again
        await conn.execute(TOUCH, [name, other])
        await watching.until(name)
    watching.send(signal.SIGINT)

    assert await watching.ended() == 130
    assert len(watching.said) == 4
    assert [line for line in watching.said if str(old) in line] == []
    if form:
        assert json.loads(first)["id"] == str(run_id)
    else:
        assert f"{run_id}  Failed  First  Article/a-17  0:Failed 1:Skipped" in first
