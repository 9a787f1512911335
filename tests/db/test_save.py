"""Writing a step: the run, its history, and the job it calls for, all or nothing."""

import pytest
from fix_queue import WANTED, jobs_that_differ, row
from msgspec.structs import replace

from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.engine.run import Compensation, settle
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue.claim import claim
from procession.queue.save import save_step
from procession.queue.step_row import Seen


def seen_of(taken, **changes):
    seen = {
        "tenant": taken.tenant.slug,
        "id": taken.id,
        "version": taken.version,
        "token": taken.token,
        "outputs": taken.run.outputs,
    }
    return Seen(**seen | changes)


async def write(conn, taken, outcome, **changes):
    now = taken.now
    step = settle(taken.run, taken.definition, outcome, now=now, jitter=0, duration_ms=3)
    return await save_step(conn, seen_of(taken, **changes), step, taken.definition, now)


async def test_a_finished_run_keeps_its_history_and_no_job(conn, make):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)

    assert await write(conn, taken, Succeeded(response_status=204))

    run = "select status, version, completed_at is null, due_at, lease_token, lease_until from run"
    assert await row(conn, run) == ("Succeeded", 3, False, None, None, None)
    history = "select ordinal, undo, position, number, outcome, response_status, duration_ms"
    assert await row(conn, f"{history} from attempt") == (0, False, 1, 1, "Succeeded", 204, 3)
    assert await row(conn, "select count(*) from procrastinate_jobs") == (0,)
    assert await jobs_that_differ(conn) == []


async def test_the_next_action_gets_the_job(conn, make):
    await (await make("Safe", "Plain")).queue()
    (taken,) = await claim(conn, WANTED, 1)

    assert await write(conn, taken, Succeeded())

    due = "select due_at = created_at, due_ordinal, due_type from run"
    assert await row(conn, due) == (True, 1, "Plain")
    job = "select status::text, args->>'ordinal', args->>'attempt' from procrastinate_jobs"
    assert await row(conn, job) == ("todo", "1", "1")
    assert await jobs_that_differ(conn) == []


async def test_a_retried_action_has_its_job_at_the_end_of_the_wait(conn, make):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)

    assert await write(conn, taken, Failed("503", retryable=True))

    due = "select due_at - updated_at between interval '9 s' and interval '11 s' from run"
    assert await row(conn, due) == (True,)
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(
    "change",
    [
        "lease_token = nextval('lease_token')",
        "lease_until = now() - interval '1 s'",
        "version = version + 1",
    ],
)
async def test_nothing_is_written_past_a_guard(conn, make, change):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute(f"update run set {change}")

    assert not await write(conn, taken, Succeeded())

    assert await row(
        conn, "select status, count(attempt) from run left join attempt on true group by status"
    ) == ("Running", 0)
    assert await jobs_that_differ(conn) == []


async def test_a_command_leaves_what_is_in_flight_with_its_lease(conn, make):
    await (await make("Safe", "Plain")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    run = replace(taken.run, cancelled_at=taken.now)
    step = settle(taken.run, taken.definition, Succeeded(), now=taken.now, jitter=0)

    assert await save_step(
        conn,
        seen_of(taken, token=None),
        replace(step, run=run, history=()),
        taken.definition,
        taken.now,
    )

    assert await row(conn, "select lease_token, cancelled_at is null from run") == (
        taken.token,
        False,
    )
    assert await jobs_that_differ(conn) == []


async def test_the_newest_twenty_entries_are_kept(conn, make):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute(
        "insert into attempt (tenant, run_id, ordinal, position, number, outcome, finished_at)"
        " select 'default', %s, 0, n, n, 'Released', now() from generate_series(1, 20) as n",
        (taken.id,),
    )

    assert await write(conn, taken, Succeeded())

    kept = "select count(*), min(position), max(position) from attempt"
    assert await row(conn, kept) == (20, 2, 21)


async def test_outputs_are_kept(conn, make):
    await (await make(ActionDefinition(type="Safe", capture=("id",)))).queue()
    (taken,) = await claim(conn, WANTED, 1)

    assert await write(conn, taken, Succeeded({"id": 7, "other": 8}))

    assert await row(conn, "select outputs from run") == ({"0": {"id": "7"}},)


async def test_an_undo_goes_the_same_way(conn, make):
    undone = ActionDefinition(type="Safe", compensate=Compensate(type="Plain"))
    await (await make(undone, ActionDefinition(type="Safe", on_failure=OnFailure.HALT))).queue()
    for outcome in (Succeeded(), Failed("400")):
        (taken,) = await claim(conn, WANTED, 1)
        assert await write(conn, taken, outcome)
    assert await jobs_that_differ(conn) == []

    (taken,) = await claim(conn, WANTED, 1)
    assert (taken.ordinal, taken.undo, taken.type, taken.action.attempts) == (0, True, "Plain", 1)
    assert taken.run.compensation is Compensation.COMPENSATING
    assert await jobs_that_differ(conn) == []
    assert await write(conn, taken, Unknown("cut off"))

    assert await row(conn, "select status, compensation from run") == (
        "PartiallyFailed",
        "Incomplete",
    )
    undos = "select ordinal, undo, position, outcome from attempt where undo"
    assert await row(conn, undos) == (0, True, 1, "Unknown")
    assert await jobs_that_differ(conn) == []
