"""Claiming: who gets what, in which order, and what is written."""

import asyncio

import msgspec
import pytest
from fix_queue import WANTED, age, jobs_that_differ

from procession.engine.run import Run, Status, due, start
from procession.engine.run import claim as claimed_by_engine
from procession.queue.claim import Wanted, claim

READ = "select version, status, actions::text, due_at, lease_worker from run where id = %s"


async def test_a_claim_writes_what_the_engine_says(conn, make):
    made = await make("Safe", "Plain")
    (run_id,) = await made.queue()

    (taken,) = await claim(conn, WANTED, 5)

    run = start(made.definition, taken.run.created_at)
    first = due(run, made.definition, taken.claimed_at)
    assert taken.run == claimed_by_engine(run, first, taken.claimed_at, repeatable=True)
    assert (taken.id, taken.ordinal, taken.undo, taken.type) == (run_id, 0, False, "Safe")
    cursor = await conn.execute(READ, (run_id,))
    version, status, actions, due_at, worker = await cursor.fetchone()
    assert (version, status, due_at, worker) == (taken.version, "Running", None, WANTED.worker)
    stored = Run(created_at=run.created_at, actions=msgspec.json.decode(actions, type=type_of(run)))
    assert stored == taken.run
    assert await jobs_that_differ(conn) == []


def type_of(run):
    return tuple[type(run.actions[0]), ...]


async def test_a_claim_brings_what_the_attempt_needs(conn, make):
    made = await make("Safe")
    await made.queue()

    (taken,) = await claim(conn, WANTED, 1)

    assert taken.definition == made.definition
    assert (taken.entry.id, taken.entry.data) == ("a1", {"title": "One"})
    assert taken.defined.fields.keys() == {"title"}
    assert (taken.tenant.slug, taken.tenant.time_zone) == ("default", "UTC")
    assert taken.action.status is Status.RUNNING
    assert taken.claimed_at <= taken.now


async def test_a_run_whose_entry_is_gone_is_claimed_without_it(conn, make):
    made = await make("Safe", entry=False)
    await made.queue()

    (taken,) = await claim(conn, WANTED, 1)

    assert (taken.entry, taken.defined) == (None, None)


async def test_eight_workers_claim_one_run_once(conn, pool, make):
    made = await make("Safe")
    (run_id,) = await made.queue()
    barrier = asyncio.Barrier(8)

    async def take():
        async with pool.connection() as worker:
            await barrier.wait()
            return await claim(worker, WANTED, 10)

    claims = await asyncio.gather(*(take() for _ in range(8)))

    assert [one.id for taken in claims for one in taken] == [run_id]
    assert await jobs_that_differ(conn) == []


async def test_eight_workers_share_what_is_due(conn, pool, make):
    made = await make("Safe")
    ids = await made.queue(40)

    async def take():
        async with pool.connection() as worker:
            return await claim(worker, WANTED, 5)

    claims = await asyncio.gather(*(take() for _ in range(8)))

    assert sorted(one.id for taken in claims for one in taken) == ids
    assert len({one.token for taken in claims for one in taken}) == 40
    assert await jobs_that_differ(conn) == []


async def test_no_more_is_claimed_than_there_are_slots(conn, make):
    for tenant in ("acme", "bravo", "coral"):
        made = await make("Safe", tenant=tenant)
        await made.queue(5)

    for slots in (1, 2, 4, 5):
        assert len(await claim(conn, WANTED, slots)) <= slots
    assert await jobs_that_differ(conn) == []


async def test_tenants_take_turns(conn, make):
    for tenant, count in (("acme", 9), ("bravo", 2), ("coral", 1)):
        made = await make("Safe", tenant=tenant)
        await made.queue(count)

    async def served(slots, after):
        return [one.tenant.slug for one in await claim(conn, WANTED, slots, after)]

    assert await served(1, "") == ["acme"]
    assert await served(1, "acme") == ["bravo"]
    assert await served(4, "bravo") == ["coral", "acme", "bravo"]  # one slot is left to the next
    assert await served(1, "bravo") == ["acme"]
    assert await served(9, "acme") == ["acme"] * 6
    assert await served(9, "acme") == []


async def test_a_tenant_with_nothing_to_serve_takes_no_turn(conn, make):
    await (await make("Other", tenant="acme")).queue(3)
    await (await make("Safe", tenant="bravo")).queue(1)

    assert [one.tenant.slug for one in await claim(conn, WANTED, 1)] == ["bravo"]


async def test_what_has_been_due_longest_goes_first(conn, make):
    made = await make("Safe")
    first = await made.queue(2)
    second = await made.queue(2)

    taken = await claim(conn, WANTED, 3)

    assert [one.id for one in taken] == [*first, second[0]]


@pytest.mark.parametrize(
    "change",
    [
        "due_at = now() + interval '1 hour'",
        "executor = 'another'",
        "document_format = 99",
        "due_type = 'Other'",
    ],
)
async def test_what_is_not_for_this_worker_is_left(conn, make, change):
    made = await make("Safe")
    await made.queue()
    await conn.execute(f"update run set {change}")

    assert await claim(conn, WANTED, 5) == []


async def test_a_run_of_a_switched_off_workflow_is_left(conn, make):
    made = await make("Safe")
    await made.queue()
    await conn.execute("update workflow set enabled = false")

    assert await claim(conn, WANTED, 5) == []


async def test_what_is_due_later_is_claimed_then(conn, make):
    made = await make("Safe")
    await made.queue()
    await conn.execute("update run set due_at = now() + interval '1 hour'")
    await age(conn, due_at=3601)

    assert len(await claim(conn, WANTED, 5)) == 1


async def test_a_stale_job_in_doing_holds_up_its_own_run_only(conn, make):
    made = await make("Safe")
    stale, other = await made.queue(2)
    await conn.execute(
        "insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, status)"
        " values ('default', 'attempt', %(lock)s, %(lock)s, 'doing')",
        {"lock": f"run:{stale}"},
    )

    assert [one.id for one in await claim(conn, WANTED, 5)] == [other]


async def test_a_missing_job_is_made_by_the_claim(conn, make):
    made = await make("Safe")
    await made.queue(2)
    await conn.execute("delete from procrastinate_jobs")

    taken = await claim(conn, WANTED, 5)

    assert len(taken) == 2
    assert await jobs_that_differ(conn) == []


async def test_a_locked_run_is_left_for_the_next_claim(conn, pool, make):
    made = await make("Safe")
    locked, free = await made.queue(2)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from run where id = %s for no key update", (locked,))

        assert [one.id for one in await claim(conn, WANTED, 1)] == [free]
    assert [one.id for one in await claim(conn, WANTED, 1)] == [locked]


async def test_what_is_repeatable_is_written_with_the_claim(conn, make):
    made = await make("Plain")
    await made.queue()

    (taken,) = await claim(conn, Wanted(WANTED.worker, ("Plain",), ()), 1)

    assert not taken.action.repeatable
