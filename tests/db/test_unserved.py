"""What no live worker serves: marked when seen, cleared when served, failed after ten minutes."""

import asyncio
import uuid

import pytest
from fix_queue import WANTED, age, jobs_that_differ, row
from fix_runs import add_worker

from procession.engine.waiting import UNSERVED_AFTER
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue import unserved as module
from procession.queue.claim import claim
from procession.queue.leases import connection
from procession.queue.mend import Place
from procession.queue.types import Beaten, Recorded, Unserved
from procession.queue.unserved import fail_unserved, mark
from procession.queue.workers import Worker, beat

MINUTE = 60
LONG_AGO = "update worker set started_at = started_at - interval '1 day'"


async def watched(conn, *types, **more):
    """A worker that has watched for a day."""
    await add_worker(conn, *types, **more)
    await conn.execute(LONG_AGO)


async def passes(kept):
    """One round of a keeper; what it failed."""
    await asyncio.to_thread(mark, kept, Place())
    return await asyncio.to_thread(fail_unserved, kept)


async def marked(conn):
    return (await row(conn, "select count(*) from run where no_worker_since is not null"))[0]


async def test_ten_minutes_without_a_worker_end_an_action(conn, kept, make):
    await watched(conn, "Other")
    (run_id,) = await (await make("Plain")).queue()

    assert await passes(kept) == []
    await age(conn, no_worker_since=10 * MINUTE - 5)
    assert await passes(kept) == []
    await age(conn, no_worker_since=6)
    (failed,) = await passes(kept)

    assert (failed.tenant, failed.run_id) == ("default", run_id)
    action = failed.step.run.actions[0]
    assert (action.status, action.retryable, action.attempts) == ("Failed", False, 0)
    assert action.error == "No worker serves the action type Plain."
    assert await row(conn, "select status, no_worker_since from run") == ("Failed", None)
    assert await row(conn, "select count(*) from attempt") == (0,)
    assert await jobs_that_differ(conn) == []
    assert UNSERVED_AFTER.total_seconds() == 10 * MINUTE


async def test_a_mark_is_a_write_of_the_run_and_is_made_once(conn, kept, make):
    await watched(conn, "Other")
    await (await make("Plain")).queue()
    seen = "select version, updated_at, no_worker_since from run"
    before = await row(conn, seen)

    await passes(kept)
    first = await row(conn, seen)
    await passes(kept)

    assert (before[0], first[0]) == (1, 2)
    assert before[1] < first[1]
    assert await row(conn, seen) == first


async def test_what_is_served_is_not_marked(conn, kept, make):
    await watched(conn, "Plain")
    await watched(conn, "Safe", claims=False)
    await (await make("Plain")).queue()
    await (await make("Safe")).queue()

    await passes(kept)

    assert await marked(conn) == 0


async def test_a_worker_that_serves_it_is_a_break(conn, kept, make):
    await watched(conn, "Other")
    await (await make("Plain")).queue()
    await passes(kept)
    await age(conn, no_worker_since=20 * MINUTE)
    await add_worker(conn, "Plain")

    assert await asyncio.to_thread(fail_unserved, kept) == []
    assert await passes(kept) == []

    assert await marked(conn) == 0
    await conn.execute("delete from worker where action_types = '{Plain}'")
    assert await passes(kept) == []
    assert await marked(conn) == 1


async def test_a_claim_is_a_break(conn, kept, make):
    await watched(conn, "Other")
    await (await make("Safe")).queue()
    await passes(kept)

    await claim(conn, WANTED, 1)

    assert await marked(conn) == 0


async def test_minutes_that_nobody_watched_do_not_count(conn, kept, make):
    await watched(conn, "Other")
    await (await make("Plain")).queue()
    await passes(kept)
    await age(conn, no_worker_since=20 * MINUTE)
    await conn.execute("delete from worker")
    await add_worker(conn, "Other")

    assert await asyncio.to_thread(fail_unserved, kept) == []
    assert await passes(kept) == []

    assert await row(conn, "select no_worker_since > now() - interval '1 min' from run") == (True,)


@pytest.mark.parametrize("other", [{"silent_for": 16}, {"claims": False}])
async def test_only_live_workers_that_claim_watch(conn, kept, make, other):
    await watched(conn, "Other", **other)
    await add_worker(conn, "Other")
    await (await make("Plain")).queue()
    await passes(kept)
    await age(conn, no_worker_since=20 * MINUTE)

    assert await asyncio.to_thread(fail_unserved, kept) == []


async def test_a_worker_that_went_away_serves_nothing(conn, kept, make):
    await watched(conn, "Other")
    await watched(conn, "Plain", silent_for=16)
    await (await make("Plain")).queue()

    assert len(await unserved_for_long(conn, kept)) == 1


async def test_a_worker_that_was_away_has_not_watched(conn, kept):
    worker = Worker(id=uuid.uuid4(), release="1.2.3", types=("Safe",), claims=True)
    started = "select started_at from worker"
    await asyncio.to_thread(beat, kept, worker)
    first = await row(conn, started)
    await asyncio.to_thread(beat, kept, worker)
    assert await row(conn, started) == first

    await conn.execute("update worker set heartbeat_at = now() - interval '16 s'")
    await asyncio.to_thread(beat, kept, worker)

    assert await row(conn, started) > first


async def test_what_is_not_due_is_not_held_up(conn, kept, make):
    await watched(conn, "Other")
    await (await make("Plain")).queue()
    await conn.execute("update run set no_worker_since = now() - interval '20 min'")
    await conn.execute("update run set due_at = now() + interval '1 hour'")
    await conn.execute("update procrastinate_jobs set scheduled_at = due_at from run")

    assert await asyncio.to_thread(fail_unserved, kept) == []
    assert await passes(kept) == []

    assert await marked(conn) == 0


@pytest.mark.parametrize("change", ["document_format = 2", "executor = 'another'"])
async def test_a_run_of_others_is_left_alone(conn, kept, make, change):
    await watched(conn, "Other")
    await (await make("Plain")).queue()
    await conn.execute(f"update run set {change}")

    assert await passes(kept) == []
    assert await marked(conn) == 0

    await conn.execute("update run set no_worker_since = now() - interval '11 min'")
    assert await asyncio.to_thread(fail_unserved, kept) == []


async def unserved_for_long(conn, kept):
    """What a keeper fails that sees the due runs of types that nobody has served for long."""
    await passes(kept)
    await age(conn, no_worker_since=10 * MINUTE + 1)
    return await passes(kept)


async def test_a_halt_and_a_rollback_follow(conn, kept, make):
    await watched(conn, "Safe")
    halting = ActionDefinition(type="Plain", on_failure=OnFailure.HALT)
    undoable = ActionDefinition(type="Safe", compensate=Compensate(type="Undo"))
    await (await make(undoable, halting, "Safe")).queue()
    await claim(conn, WANTED, 1)
    await conn.execute(SUCCEEDED)

    (failed,) = await unserved_for_long(conn, kept)

    statuses = [one.status for one in failed.step.run.actions]
    assert statuses == ["Succeeded", "Failed", "Skipped"]
    assert failed.step.halted == 1
    due = "select compensation, due_ordinal, due_undo, due_type, no_worker_since from run"
    assert await row(conn, due) == ("Compensating", 0, True, "Undo", None)

    (undone,) = await unserved_for_long(conn, kept)

    assert undone.step.run.actions[0].undo.status == "Failed"
    ended = "select status, compensation from run"
    assert await row(conn, ended) == ("PartiallyFailed", "Incomplete")
    assert await jobs_that_differ(conn) == []


SUCCEEDED = """
    update run set lease_token = null, lease_until = null, lease_worker = null,
        due_at = created_at, due_ordinal = 1, due_type = 'Plain',
        actions = jsonb_set(actions, '{0,status}', '"Succeeded"')
"""


async def test_the_next_of_the_same_type_has_waited_as_long_and_one_of_another_has_not(
    conn, kept, make
):
    await watched(conn, "Safe")
    await (await make("Plain", "Plain", "Other")).queue()

    assert len(await unserved_for_long(conn, kept)) == 1
    await conn.execute("update procrastinate_jobs set status = 'todo' where status = 'doing'")
    assert len(await passes(kept)) == 1
    assert await passes(kept) == []

    assert await row(conn, "select due_ordinal from run") == (2,)
    assert await jobs_that_differ(conn) == []


async def test_two_keepers_fail_an_action_once(conn, database, kept, make):
    await watched(conn, "Other")
    await (await make("Plain", "Other", "Other")).queue(30)
    await passes(kept)
    await age(conn, no_worker_since=10 * MINUTE + 1)
    barrier = asyncio.Barrier(2)

    async def one():
        await barrier.wait()
        return await asyncio.to_thread(fails_on_its_own, database)

    failed = await asyncio.gather(one(), one())

    assert sum(map(len, failed)) == 30
    assert len({one.run_id for found in failed for one in found}) == 30
    assert await jobs_that_differ(conn) == []


def fails_on_its_own(database):
    with connection(database) as conn:
        return [*fail_unserved(conn), *fail_unserved(conn)]


async def test_a_locked_run_is_left_for_the_next_round(conn, pool, kept, make):
    await watched(conn, "Other")
    locked, _ = await (await make("Plain")).queue(2)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from run where id = %s for no key update", (locked,))

        await passes(kept)
        assert await marked(conn) == 1
    await passes(kept)
    assert await marked(conn) == 2


async def test_the_walk_is_bounded_and_goes_on_where_it_came_to(conn, kept, make, monkeypatch):
    monkeypatch.setattr(module, "STRETCH", 4)
    monkeypatch.setattr(module, "MARKS", 3)
    await watched(conn, "Other")
    await (await make("Plain")).queue(10)

    place, counts = Place(), []
    for _ in range(6):
        place = await asyncio.to_thread(mark, kept, place)
        counts.append(await marked(conn))

    assert counts == [3, 6, 8, 9, 10, 10]
    assert place == Place()


async def test_a_workers_keeper_does_all_of_it(conn, make, worked):
    await (await make("Nobody", "Safe")).queue()
    async with worked.working():
        async with asyncio.timeout(10):
            while not await marked(conn):
                continue
        await conn.execute(LONG_AGO)
        await age(conn, no_worker_since=10 * MINUTE)
        (failed,) = await worked.heard.wait(Unserved)
        await worked.heard.wait(Recorded)

    assert failed.step.run.actions[0].error == "No worker serves the action type Nobody."
    assert await row(conn, "select status from run") == ("PartiallyFailed",)
    assert await jobs_that_differ(conn) == []


async def test_a_worker_whose_runner_is_off_decides_nothing(conn, make, worked):
    await (await make("Nobody")).queue()
    async with worked.working(enabled=False):
        await worked.heard.wait(Beaten)  # and ends its round before it is stopped

    assert await marked(conn) == 0
