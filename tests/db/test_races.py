"""Two sides at one run, or at one workflow: whoever comes first, what is left is sound."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fix_queue import WANTED, age
from fix_races import BY, rounds, target

from procession.engine.change import Key
from procession.engine.outcome import Failed, Succeeded
from procession.engine.precondition import Precondition
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue import commands, entries, workflow_changes
from procession.queue.claim import claim
from procession.queue.leases import connection
from procession.queue.record import Ended
from procession.queue.rescue import rescue
from procession.queue.start import Origin
from procession.queue.stored_run import one

AGAIN = Ended(Failed("503", retryable=True), 1)
NO = Ended(Failed("400"), 1)
DONE = Ended(Succeeded(), 1)
UNDOABLE = ActionDefinition(type="Safe", compensate=Compensate(type="Safe"))
HALTING = ActionDefinition(type="Safe", on_failure=OnFailure.HALT)


async def queued(made):
    (run_id,) = await made.queue()
    return run_id


async def in_flight(made):
    """A run whose first action is claimed, and the claim."""
    run_id = await queued(made)
    (taken,) = await claim(made.conn, WANTED, 1)
    return run_id, taken


async def recorded(race, made, *ended):
    """A run after these outcomes."""
    run_id = await queued(made)
    for outcome in ended:
        (taken,) = await claim(made.conn, WANTED, 1)
        assert await race.recorder.record(taken, outcome)
    return run_id


async def after(conn, run_id):
    """The run's status, and those of its actions by their first letters."""
    found = await one(conn, "default", run_id)
    return found.status.value, " ".join(action.status[0] for action in found.actions)


async def said(conn, run_id):
    """The outcomes of the run's history."""
    return [entry.outcome.value for entry in (await one(conn, "default", run_id)).history]


@rounds
async def test_a_cancel_against_a_claim(conn, make, race, rounds):
    made = await make("Safe", "Safe")

    async def once():
        run_id = await queued(made)

        claims, cancelled = await race.between(
            lambda mine: claim(mine, WANTED, 1),
            lambda mine: commands.cancel(mine, target(run_id)),
        )

        assert cancelled.cancelled_at is not None
        assert await after(conn, run_id) == (("Running", "R C") if claims else ("Cancelled", "C C"))
        for taken in claims:  # what went out is recorded, and nothing after it
            assert await race.recorder.record(taken, AGAIN)
            assert await after(conn, run_id) == ("Cancelled", "F C")
        assert await claim(conn, WANTED, 1) == []
        return "claimed" if claims else "cancelled"

    await race.goes(rounds, once, "claimed", "cancelled")


@rounds
@pytest.mark.parametrize(("outcome", "ends"), [(AGAIN, ("F C", "C C")), (DONE, ("S C",))])
async def test_a_cancel_against_a_record(make, race, rounds, outcome, ends):
    made = await make("Safe", "Safe")

    async def once():
        run_id, taken = await in_flight(made)

        step, cancelled = await race.between(
            lambda _: race.recorder.record(taken, outcome),
            lambda mine: commands.cancel(mine, target(run_id)),
        )

        assert step is not None
        assert cancelled.cancelled_at is not None
        status, letters = await after(made.conn, run_id)
        assert status == "Cancelled"
        return letters

    await race.goes(rounds, once, *ends)


@rounds
async def test_a_cancel_against_the_last_record(conn, make, race, rounds):
    made = await make("Safe")

    async def once():
        run_id, taken = await in_flight(made)

        step, cancelled = await race.between(
            lambda _: race.recorder.record(taken, DONE),
            lambda mine: commands.cancel(mine, target(run_id)),
        )

        assert step is not None
        refused = cancelled == "run-finished"
        assert await after(conn, run_id) == ("Succeeded" if refused else "Cancelled", "S")
        return "refused" if refused else "cancelled"

    await race.goes(rounds, once, "refused", "cancelled")


@rounds
async def test_a_retry_against_a_delete_of_the_workflow(conn, make, race, rounds):
    async def once():
        made = await make("Safe")
        run_id = await recorded(race, made, NO)

        retried, deleted = await race.between(
            lambda mine: commands.retry(mine, target(run_id), 0),
            lambda mine: workflow_changes.delete(mine, "default", made.id, BY),
        )

        assert deleted is None
        refused = retried == "workflow-deleted"
        assert await after(conn, run_id) == (("Failed", "F") if refused else ("Cancelled", "C"))
        assert await claim(conn, WANTED, 1) == []
        return "refused" if refused else "retried"

    await race.goes(rounds, once, "refused", "retried")


def saves(title):
    """A side that changes the entry."""
    key, body = Key("default", "article", "a1"), {"status": "Draft", "data": {"title": title}}
    return lambda mine: entries.put(mine, key, body, Precondition(), Origin(BY.actor))


async def fired_by_a_save(made):
    await made.conn.execute(
        "insert into workflow_trigger (tenant, content_type, event, workflow_id)"
        " values ('default', 'article', 'Updated', %s)",
        (made.id,),
    )


@rounds
async def test_a_delete_of_the_workflow_against_queueing(conn, make, race, rounds):
    async def once():
        made = await make("Safe")
        await fired_by_a_save(made)

        saved, deleted, claims = await race.between(
            saves(str(made.id)),
            lambda mine: workflow_changes.delete(mine, "default", made.id, BY),
            lambda mine: claim(mine, WANTED, 1),
        )

        assert deleted is None
        assert saved.entry.data == {"title": str(made.id)}
        for run_id in saved.fired.run_ids:
            left = ("Running", "R") if claims else ("Cancelled", "C")
            assert await after(conn, run_id) == left
        assert await claim(conn, WANTED, 1) == []
        return "queued" if saved.fired.run_ids else "deleted"

    await race.goes(rounds, once, "queued", "deleted")


@rounds
async def test_a_switch_against_queueing(conn, make, race, rounds):
    made = await make("Safe")
    await fired_by_a_save(made)

    async def once():
        await conn.execute("update workflow set enabled = true, version = version")
        (number,) = await (await conn.execute("select nextval('event_sequence')")).fetchone()

        saved, switched = await race.between(
            saves(f"{number}"),
            lambda mine: workflow_changes.switch(mine, "default", made.id, BY, lambda: False),
        )

        assert not switched.enabled
        assert await claim(conn, WANTED, 1) == []
        assert (await saves(f"{number} again")(conn)).fired.run_ids == ()
        return "queued" if saved.fired.run_ids else "switched off"

    await race.goes(rounds, once, "queued", "switched off")


@rounds
async def test_two_operators_retry(conn, make, race, rounds):
    made = await make("Safe")

    async def once():
        run_id = await recorded(race, made, NO)
        before = await one(conn, "default", run_id)

        first, second = await race.between(
            *[lambda mine: commands.retry(mine, target(run_id), 0)] * 2
        )

        assert first.version == second.version == before.version + 1
        assert await after(conn, run_id) == ("Pending", "P")
        noted = await conn.execute("select from audit where target_id = %s", (str(run_id),))
        assert noted.rowcount == 1
        return "once"

    await race.goes(rounds, once, "once")


@rounds
async def test_a_cancel_against_an_abandon(conn, make, race, rounds):
    made = await make(UNDOABLE, "Safe")

    async def once():
        run_id = await recorded(race, made, DONE, AGAIN)

        cancelled, abandoned = await race.between(
            lambda mine: commands.cancel(mine, target(run_id)),
            lambda mine: commands.abandon(mine, target(run_id)),
        )

        assert cancelled.cancelled_at is not None
        assert await after(conn, run_id) == ("Cancelled", "S C")
        refused = abandoned == "run-cancelled"
        found = await one(conn, "default", run_id)
        assert found.compensation == (None if refused else "Incomplete")
        return "cancelled" if refused else "abandoned"

    await race.goes(rounds, once, "cancelled", "abandoned")


@rounds
async def test_a_retry_against_an_abandon(conn, make, race, rounds):
    made = await make(UNDOABLE, "Safe")

    async def once():
        run_id = await recorded(race, made, DONE, NO)

        retried, abandoned = await race.between(
            lambda mine: commands.retry(mine, target(run_id), 1),
            lambda mine: commands.abandon(mine, target(run_id)),
        )

        refused = retried == "run-rolled-back"
        assert abandoned.compensation == "Compensating"
        assert await after(conn, run_id) == ("Running", "S F" if refused else "S C")
        return "abandoned" if refused else "retried"

    await race.goes(rounds, once, "abandoned", "retried")


@rounds
async def test_a_force_end_against_a_record(conn, make, race, rounds):
    made = await make("Safe", "Safe")

    async def once():
        run_id, taken = await in_flight(made)

        step, ended = await race.between(
            lambda _: race.recorder.record(taken, DONE),
            lambda mine: commands.force_end(mine, target(run_id)),
        )

        assert ended.status == "Cancelled"
        assert await after(conn, run_id) == ("Cancelled", "S C" if step else "U C")
        left = ["Succeeded"] if step else ["Unknown", "Discarded"]
        assert await said(conn, run_id) == left
        return "recorded" if step else "ended"

    await race.goes(rounds, once, "recorded", "ended")


LAPSING = "update run set lease_until = clock_timestamp() + %s * interval '1 ms'"


@rounds
async def test_a_rescue_against_a_record(conn, kept, make, race, rounds):
    made = await make("Safe", "Safe")

    async def once():
        run_id, taken = await in_flight(made)
        await conn.execute(LAPSING, (race.random.randrange(8),))  # while both are on their way

        async def rescued(mine):
            while not (found := await asyncio.to_thread(rescue, kept)):
                if (await one(mine, "default", run_id)).lease_until is None:
                    return False
            return len(found) == 1

        step, taken_away = await race.between(lambda _: race.recorder.record(taken, DONE), rescued)

        assert taken_away == (step is None)
        left = ["Succeeded"] if step else ["Discarded", "Lost"]
        assert sorted(await said(conn, run_id)) == left
        assert await after(conn, run_id) == ("Running", "S P") if step else ("Pending", "P P")
        return "recorded" if step else "rescued"

    await race.goes(rounds, once, "recorded", "rescued")


@rounds
async def test_eight_rescuers(conn, database, make, race, rounds):
    made = await make(HALTING, "Safe")
    start = threading.Barrier(8)

    def rescues(keeper):
        start.wait(10)
        return rescue(keeper, 5)

    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(8))
        keepers = [stack.enter_context(connection(database)) for _ in range(8)]

        async def once():
            ids = await made.queue(20)
            await claim(conn, WANTED, 20)
            await age(conn, lease_until=16)

            found = [*threads.map(rescues, keepers), rescue(keepers[0])]

            assert sorted(one.run_id for some in found for one in some) == ids
            return "each once"

        await race.goes(rounds, once, "each once")
