"""What is next of a run: what the walk gives when that is asked, not when the run was written."""

import asyncio
import itertools
from datetime import timedelta
from uuid import UUID

import pytest
from fix_queue import WANTED, jobs_that_differ
from fix_runs import add_worker, encoded

from procession.engine.run import Action, Run, Status, due
from procession.engine.run import claim as claimed_by_engine
from procession.engine.validation import MOST_ACTIONS
from procession.engine.workflow import ActionDefinition, OnFailure
from procession.queue import unserved
from procession.queue.claim import Wanted, claim
from procession.queue.mend import Place
from procession.queue.stored_run import one
from procession.queue.unserved import fail_unserved, mark
from procession.queue.walk import NEXT_ORDINAL

AGO = 60  # seconds since the run was last written
ONLY_SAFE = Wanted(UUID(int=2), types=("Safe",), repeatable=("Safe",))
ONLY_PLAIN = Wanted(UUID(int=3), types=("Plain",), repeatable=())
DONE = Action(status=Status.SUCCEEDED, attempts=1)
AS_WRITTEN = """
    with written as (
        update run
        set created_at = %(created_at)s, actions = %(actions)s,
            due_at = %(at)s, due_ordinal = %(ordinal)s, due_type = %(type)s
        where id = %(id)s
    )
    update procrastinate_jobs set scheduled_at = %(at)s where lock = 'run:' || %(id)s
"""


def a_chain(letters):
    """Actions that halt or continue, by turns of a type that may be repeated and of one not."""
    return [
        ActionDefinition(
            type=type_, on_failure=OnFailure.HALT if letter == "H" else OnFailure.CONTINUE
        )
        for letter, type_ in zip(letters, itertools.cycle(["Safe", "Plain"]), strict=False)
    ]


async def written(conn, made, ids, waits):
    """Runs as they were left a minute ago: of each action, done, at once, or after so long."""
    ((now,),) = await rows(conn, "select clock_timestamp()")
    then = now - timedelta(seconds=AGO)
    created_at = then - timedelta(seconds=AGO)
    for run_id, wait in zip(ids, waits, strict=True):
        actions = tuple(an_action(one, then) for one in wait)
        first = due(Run(created_at=created_at, actions=actions), made.definition, then)
        await conn.execute(
            AS_WRITTEN,
            {
                "id": run_id,
                "created_at": created_at,
                "actions": encoded(actions),
                "at": first.at,
                "ordinal": first.ordinal,
                "type": first.type,
            },
        )


def an_action(wait, then):
    if wait == "done":
        return DONE
    if wait == "at once":
        return Action()
    return Action(attempts=1, failures=1, next_attempt_at=then + timedelta(seconds=wait))


async def rows(conn, statement, *values):
    return await (await conn.execute(statement, values)).fetchall()


async def a_run(conn, make, letters, *waits):
    """The id of one run of this chain, as it was left a minute ago."""
    made = await make(*a_chain(letters))
    ids = await made.queue()
    await written(conn, made, ids, [waits])
    return ids[0]


async def test_of_two_waits_that_both_ended_the_lower_ordinal_goes_first(conn, make):
    run_id = await a_run(conn, make, "CC", 30, 10)
    assert await rows(conn, "select due_ordinal from run") == [(1,)]

    (taken,) = await claim(conn, WANTED, 1)

    assert (taken.id, taken.ordinal, taken.type) == (run_id, 0, "Safe")
    assert (taken.action.repeatable, taken.action.attempts) == (True, 2)
    assert taken.run.actions[1].status is Status.PENDING
    assert await jobs_that_differ(conn) == []


async def test_a_wait_that_ended_goes_before_a_later_action_that_was_due_at_once(conn, make):
    await a_run(conn, make, "CC", 30, "at once")

    (taken,) = await claim(conn, WANTED, 1)

    assert taken.ordinal == 0


async def test_a_wait_that_goes_on_lets_the_later_one_by(conn, make):
    await a_run(conn, make, "CC", 90, 10)

    (taken,) = await claim(conn, WANTED, 1)

    assert (taken.ordinal, taken.type, taken.action.repeatable) == (1, "Plain", False)


@pytest.mark.parametrize("letters", ["".join(one) for one in itertools.product("CH", repeat=3)])
async def test_a_claim_takes_what_the_engine_says_is_next(conn, make, letters):
    """All runs of three actions that are done, may go at once, or wait: for some time or still."""
    made = await make(*a_chain(letters))
    waits = [
        one
        for one in itertools.product(("done", "at once", 10, 30, 90), repeat=3)
        if set(one) != {"done"}
    ]
    ids = await made.queue(len(waits))
    await written(conn, made, ids, waits)
    there = {run_id: (await one(conn, "default", run_id)).run for run_id in ids}

    claims = await claim(conn, WANTED, len(waits))

    now = claims[0].claimed_at
    walked = {run_id: due(run, made.definition, now) for run_id, run in there.items()}
    assert {one.id for one in claims} == {id_ for id_, next_ in walked.items() if next_.at <= now}
    for taken in claims:
        next_ = walked[taken.id]
        assert (taken.ordinal, taken.undo, taken.type) == (next_.ordinal, False, next_.type)
        expected = claimed_by_engine(there[taken.id], next_, now, repeatable=next_.type == "Safe")
        assert taken.run == expected


async def test_what_is_next_is_left_by_who_does_not_serve_it(conn, make):
    await a_run(conn, make, "CC", 30, 10)  # Safe is next, and Plain was when it was written

    assert await claim(conn, ONLY_PLAIN, 1) == []
    (taken,) = await claim(conn, ONLY_SAFE, 1)

    assert (taken.ordinal, taken.type) == (0, "Safe")


async def test_who_serves_what_was_next_takes_it_while_it_is(conn, make):
    await a_run(conn, make, "CC", 90, 10)

    assert await claim(conn, ONLY_SAFE, 1) == []
    (taken,) = await claim(conn, ONLY_PLAIN, 1)

    assert (taken.ordinal, taken.type) == (1, "Plain")


async def test_beside_a_document_that_cannot_be_claimed_the_order_is_kept(conn, make):
    run_id = await a_run(conn, make, "CC", 30, 10)
    odd = await a_run(conn, make, "C", "at once")
    await conn.execute(
        "update run set actions = jsonb_set(actions, '{0,attempts}', '\"x\"') where id = %s", (odd,)
    )

    (taken,) = await claim(conn, WANTED, 2)

    assert (taken.id, taken.ordinal) == (run_id, 0)


@pytest.mark.parametrize("odd", ['"soon"', "7", "{}", '"2026-02-30T00:00:00Z"', '""', "null"])
async def test_a_moment_that_is_none_holds_up_no_claim(conn, make, odd):
    run_id = await a_run(conn, make, "CC", 30, 10)
    other = await a_run(conn, make, "C", "at once")
    await conn.execute(
        "update run set actions = jsonb_set(actions, '{0,next_attempt_at}', %s) where id = %s",
        (odd, run_id),
    )

    claims = await claim(conn, WANTED, 2)

    assert other in {one.id for one in claims}


@pytest.mark.parametrize("length", [2, 20_000])
async def test_an_ordinal_past_all_actions_holds_up_nobody(conn, kept, make, length):
    await a_run(conn, make, "CC", 30, 10)
    other = await a_run(conn, make, "C", "at once")
    await watched(conn, "Other")
    await conn.execute(FAR, (length,))
    await conn.execute("update run set no_worker_since = now() - interval '11 min'")

    async with conn.transaction():
        await conn.execute("set local statement_timeout = '5s'")
        claims = await claim(conn, WANTED, 2)
    await kept_within(kept, 5)

    assert other in {one.id for one in claims}


FAR = """
    update run set due_ordinal = 2147483647, actions = (
        select jsonb_agg(first) from generate_series(1, %s)
        cross join lateral (select run.actions -> 0 as first) as one)
    where due_ordinal = 1
"""


async def kept_within(kept, seconds):
    """A keeper looks for what nobody serves, and no statement of it takes longer."""
    await asyncio.to_thread(kept.execute, f"set statement_timeout = '{seconds}s'")
    await asyncio.to_thread(mark, kept, Place())
    await asyncio.to_thread(fail_unserved, kept)


def test_the_walk_goes_along_as_many_actions_as_a_workflow_may_have():
    assert f"least(run.due_ordinal, {MOST_ACTIONS})" in NEXT_ORDINAL


def test_the_walk_unpacks_a_document_once_however_many_actions_it_has():
    assert NEXT_ORDINAL.count("run.actions") == 2  # and once to see whether there is one that waits


async def test_what_is_shown_to_wait_is_what_a_claim_would_take(conn, make):
    run_id = await a_run(conn, make, "CC", 30, 10)

    found = await one(conn, "default", run_id)

    assert (found.due.ordinal, found.due.type) == (0, "Safe")


async def watched(conn, type_):
    """A worker of this type alone, which has watched for long."""
    await add_worker(conn, type_)
    await conn.execute("update worker set started_at = started_at - interval '1 day'")


DUE = "select due_ordinal, due_type, no_worker_since is not null from run"
TEN_MINUTES_ON = "update run set no_worker_since = no_worker_since - interval '10 min'"


async def test_what_is_next_and_not_served_is_failed_ten_minutes_after_that_was_seen(
    conn, kept, make
):
    await a_run(conn, make, "CC", 30, 10)
    await watched(conn, "Plain")

    await asyncio.to_thread(mark, kept, Place())

    assert await rows(conn, DUE) == [(0, "Safe", True)]
    assert await jobs_that_differ(conn) == []
    assert await asyncio.to_thread(fail_unserved, kept) == []
    await conn.execute(TEN_MINUTES_ON)
    (failed,) = await asyncio.to_thread(fail_unserved, kept)
    assert [one.status for one in failed.step.run.actions] == ["Failed", "Pending"]
    (taken,) = await claim(conn, ONLY_PLAIN, 1)
    assert taken.ordinal == 1


async def test_what_is_next_and_served_is_not_failed_for_what_was_next(conn, kept, make):
    await a_run(conn, make, "CC", 30, 10)
    await watched(conn, "Safe")
    await conn.execute("update run set no_worker_since = now() - interval '11 min'")

    assert await asyncio.to_thread(fail_unserved, kept) == []
    await asyncio.to_thread(mark, kept, Place())

    assert await rows(conn, DUE) == [(0, "Safe", False)]
    assert await jobs_that_differ(conn) == []


async def test_what_has_become_next_has_ten_minutes_of_its_own(conn, kept, make):
    await a_run(conn, make, "CC", 30, 10)
    await watched(conn, "Other")
    await conn.execute("update run set no_worker_since = now() - interval '11 min'")

    assert await asyncio.to_thread(fail_unserved, kept) == []
    await asyncio.to_thread(mark, kept, Place())
    assert await asyncio.to_thread(fail_unserved, kept) == []

    assert await rows(conn, DUE) == [(0, "Safe", True)]


async def test_a_mark_made_while_the_walk_is_the_same_stays(conn, kept, make):
    await a_run(conn, make, "CC", 90, 10)
    await watched(conn, "Safe")
    await asyncio.to_thread(mark, kept, Place())
    await conn.execute(TEN_MINUTES_ON)
    await asyncio.to_thread(mark, kept, Place())

    (failed,) = await asyncio.to_thread(fail_unserved, kept)

    assert [one.status for one in failed.step.run.actions] == ["Pending", "Failed"]


async def test_what_is_found_at_one_moment_is_failed_as_of_that_moment(
    conn, kept, make, monkeypatch
):
    slow = unserved.FORSAKEN.replace("from worker\n", "from worker cross join pg_sleep(0.4)\n", 1)
    monkeypatch.setattr(unserved, "FORSAKEN", slow)
    await a_run(conn, make, "CC", AGO + 0.2, "at once")  # the wait ends while it is looked for
    await watched(conn, "Safe")
    await conn.execute("update run set no_worker_since = now() - interval '11 min'")

    (failed,) = await asyncio.to_thread(fail_unserved, kept)

    assert [one.status for one in failed.step.run.actions] == ["Pending", "Failed"]


AS_ELSEWHERE = """
    update run set no_worker_since = now() - interval '11 min', actions = jsonb_set(
        actions, '{0,next_attempt_at}',
        to_jsonb(to_char(now() + interval '10 hours', 'YYYY-MM-DD"T"HH24:MI:SS"+12:00"')))
"""


async def test_where_row_and_document_differ_nothing_fails_and_the_row_is_put_right(
    conn, kept, make
):
    await a_run(conn, make, "CC", 90, "at once")
    await watched(conn, "Safe")
    await conn.execute(AS_ELSEWHERE)  # two hours ago, and yet no text of an earlier moment

    assert await asyncio.to_thread(fail_unserved, kept) == []

    assert await rows(conn, DUE) == [(0, "Safe", False)]
    assert await jobs_that_differ(conn) == []
