"""A whole worker on a real database, with actions that do what the test says."""

from datetime import timedelta

import pytest
from fix_queue import jobs_that_differ, row

from procession.actions.base import Failed, Succeeded, Unknown
from procession.app.runner import UnaskedError
from procession.queue.types import Beaten, Claimed, Passed, Recorded, Released, Rescued


async def test_a_run_is_worked_off_in_order(conn, make, worked):
    made = await make("Safe", "Plain", "Safe")
    (run_id,) = await made.queue()

    async with worked.working():
        await worked.heard.wait(Recorded, 3)

    assert [one.ordinal for one in worked.safe.seen] == [0, 2]
    assert [one.idempotency_key for one in worked.plain.seen] == [f"{run_id.hex}-1"]
    assert await row(conn, "select status from run") == ("Succeeded",)
    assert await jobs_that_differ(conn) == []


async def test_what_is_queued_while_the_worker_idles_is_taken_at_once(make, worked):
    made = await make("Safe")
    async with worked.working():
        await worked.heard.wait(Passed, 2)
        for count in range(1, 6):
            await made.queue()
            await worked.heard.wait(Recorded, count, seconds=0.9)  # sooner than the poll


async def test_what_falls_due_is_taken_then(conn, make, worked):
    made = await make("Safe")
    await made.queue()
    await conn.execute("update run set due_at = clock_timestamp() + interval '0.3 s'")
    async with worked.working():
        await worked.heard.wait(Recorded, 1, seconds=0.9)

    late = "select updated_at - created_at < interval '1 s' from run"
    assert await row(conn, late) == (True,)


async def test_no_more_actions_are_in_flight_than_slots(make, worked):
    await (await make("Safe")).queue(7)
    worked.safe.gate.clear()
    async with worked.working(concurrency=3):
        await worked.heard.wait(Claimed)
        await worked.heard.wait(Passed, 4)
        assert len(worked.safe.seen) == 3
        worked.safe.gate.set()
        await worked.heard.wait(Recorded, 7)


async def test_an_entry_that_is_gone_is_skipped(make, worked):
    await (await make("Safe", entry=False)).queue()
    async with worked.working():
        (recorded,) = await worked.heard.wait(Recorded)

    assert recorded.step.run.actions[0].status == "Skipped"
    assert worked.safe.seen == []


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Succeeded(), "Succeeded"),
        (Failed("400"), "Failed"),
        (Unknown("cut off"), "Failed"),
        (Failed("503", retryable=True), "Pending"),
    ],
)
async def test_an_outcome_settles_the_run(conn, make, worked, outcome, status):
    await (await make("Safe")).queue()
    worked.safe.outcomes.append(outcome)
    async with worked.working():
        await worked.heard.wait(Recorded)

    assert await row(conn, "select status from run") == (status,)
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Failed("hunter2"), ["Action 0 Safe ended Failed"]),
        (Unknown("hunter2"), ["Action 0 Safe ended Unknown"]),
        (Failed("hunter2", retryable=True), []),
        (Succeeded(), []),
    ],
)
async def test_an_action_that_waits_for_a_person_is_told_without_its_error(
    make, worked, caplog, outcome, says
):
    await (await make("Safe")).queue()
    worked.safe.outcomes.append(outcome)
    async with worked.working():
        await worked.heard.wait(Recorded)

    told = [one for one in caplog.records if one.name == "procession.app.notice"]
    assert [(one.levelname, one.message) for one in told] == [("WARNING", one) for one in says]
    assert "hunter2" not in caplog.text


async def test_a_stop_lets_what_is_in_flight_end(conn, make, worked):
    await (await make("Safe")).queue(3)
    worked.safe.gate.clear()
    async with worked.working() as ours:
        await worked.safe.begun.wait()
        ours.stop.set()
        worked.safe.gate.set()

    assert len(worked.safe.seen) == 1
    cursor = await conn.execute("select status, count(*) from run group by status order by status")
    assert await cursor.fetchall() == [("Pending", 2), ("Succeeded", 1)]
    assert await jobs_that_differ(conn) == []
    assert await row(conn, "select count(*) from worker") == (0,)


async def test_what_was_claimed_and_has_not_begun_is_given_back(conn, make, worked):
    await (await make("Plain")).queue(3)
    heard, asked_to_stop = worked.heard, []

    def tell(happened):
        heard(happened)
        if isinstance(happened, Claimed):
            for stop in asked_to_stop:
                stop()

    worked.heard = tell
    async with worked.working(concurrency=3) as ours:
        asked_to_stop += [ours.stop.set, ours.runner.working.stop]
        await ours.task

    assert worked.plain.seen == []
    assert len(heard.of(Released)) == 3
    assert await row(conn, "select count(*) from run where status = 'Pending'") == (3,)
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(("kind", "outcome"), [("Safe", "Released"), ("Plain", "Unknown")])
async def test_what_goes_on_beyond_the_grace_is_cut(conn, make, worked, kind, outcome):
    await (await make(kind)).queue()
    action = worked.safe if kind == "Safe" else worked.plain
    action.gate.clear()
    async with worked.working(grace=timedelta(seconds=0.1)) as ours:
        await action.begun.wait()
        ours.stop.set()
        await ours.task

    assert await row(conn, "select outcome from attempt") == (outcome,)
    assert len(worked.heard.of(Released)) == 1
    assert await jobs_that_differ(conn) == []


async def test_an_action_whose_lease_is_taken_is_cancelled_and_records_nothing(conn, make, worked):
    await (await make("Safe")).queue()
    worked.safe.gate.clear()
    async with worked.working():
        await worked.safe.begun.wait()
        await conn.execute("update run set lease_until = now() - interval '1 s'")
        await worked.heard.wait(Rescued, 1, seconds=20)
        await worked.heard.wait(Claimed, 2, seconds=20)  # its one slot is free: it was cancelled
        worked.safe.gate.set()
        await worked.heard.wait(Recorded, 1, seconds=20)

    cursor = await conn.execute("select outcome, number from attempt order by position")
    assert await cursor.fetchall() == [("Lost", 1), ("Succeeded", 2)]
    assert await jobs_that_differ(conn) == []


async def test_two_workers_share_the_work(conn, make, worked):
    await (await make("Safe", "Safe")).queue(30)
    async with worked.working(concurrency=5), worked.working(concurrency=5):
        await worked.heard.wait(Recorded, 60)

    assert await row(conn, "select count(*) from attempt where number > 1") == (0,)
    assert await row(conn, "select count(*) from run where status = 'Succeeded'") == (30,)
    assert await jobs_that_differ(conn) == []


async def test_a_worker_outlives_the_loss_of_every_connection(conn, make, worked):
    made = await make("Safe")
    async with worked.working():
        await worked.heard.wait(Passed)
        await conn.execute(
            """select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()"""
        )
        await made.queue()
        await worked.heard.wait(Recorded, 1, seconds=15)

    assert await jobs_that_differ(conn) == []


async def test_a_worker_whose_runner_is_off_claims_nothing(conn, make, worked):
    await (await make("Safe")).queue()
    async with worked.working(enabled=False) as ours:
        await worked.heard.wait(Beaten)
        assert await row(conn, "select claims from worker") == (False,)
        assert ours.runner.reasons() == []

    assert worked.heard.of(Claimed) == []
    assert await row(conn, "select status from run") == ("Pending",)


async def test_a_worker_may_end_once_nothing_is_due(conn, make, worked):
    made = await make("Safe", "Safe")
    for _ in range(6):  # an outcome may arrive while the worker looks for a maintenance task
        await made.queue(3)
        async with worked.working(wait=False, concurrency=2) as ours:
            await ours.task

    assert await row(conn, "select count(*) from run where status = 'Succeeded'") == (18,)


async def test_to_end_without_being_asked_is_an_error(worked):
    with pytest.raises(ExceptionGroup) as raised:
        await unasked(worked)

    assert raised.group_contains(UnaskedError)


async def unasked(worked):
    async with worked.working() as ours:
        await worked.heard.wait(Passed)
        ours.runner.working.stop()
        await ours.task
