"""The bodies that a run keeps for its next attempts: read by nobody, lost by no command."""

import pytest
from fix_runs import add_run, add_workflow

from procession.engine.run import Action, Status
from procession.queue import runs, stored_run
from procession.queue.audit import By
from procession.queue.commands import Target, cancel
from procession.queue.runs import Filters, Span

BODY = "".join(map(str, range(20_000)))  # that does not pack well
UNDONE = Action(status=Status.SUCCEEDED, attempts=1, undo=Action(body=BODY, attempts=1))
WAITING = Action(body=BODY, attempts=1, failures=1)


@pytest.fixture
async def run_id(conn):
    return await add_run(conn, await add_workflow(conn), UNDONE, WAITING)


def bodies(run):
    return [run.actions[0].undo.body, run.actions[1].body]


async def test_what_is_shown_is_read_without_them(conn, run_id):
    whole = await stored_run.one(conn, "default", run_id)
    shown = await stored_run.shown(conn, "default", run_id)
    (listed,) = await runs.page(conn, "default", Filters(), Span(10, 0), 1)

    assert bodies(whole) == [BODY, BODY]
    assert bodies(shown) == bodies(listed) == [None, None]
    assert [one.attempts for one in listed.actions] == [1, 1]
    assert shown.actions == listed.actions


async def test_what_is_written_again_is_read_with_them(conn, run_id):
    (some,) = await stored_run.some(conn, "default", [run_id])

    assert bodies(some) == [BODY, BODY]


async def test_a_command_keeps_them(conn):
    flying = Action(status=Status.RUNNING, body=BODY, attempts=2)
    run_id = await add_run(conn, await add_workflow(conn), flying, Action())

    await cancel(conn, Target("default", run_id, By()))

    cursor = await conn.execute("select actions->0->>'body', actions->1->>'status' from run")
    assert await cursor.fetchone() == (BODY, "Cancelled")
