"""Claims in place of what is recorded: in one transaction, in turn, and no more than slots."""

import asyncio
import contextlib
import time

import pytest
from fix_queue import WANTED, jobs_that_differ, row
from fix_races import opened
from psycopg.pq import TransactionStatus

from procession.engine.outcome import Failed, Succeeded
from procession.queue import intake, pace
from procession.queue.intake import Intake
from procession.queue.leases import Held
from procession.queue.pending import Ended
from procession.queue.record import Recorder
from procession.queue.types import Claimed

DONE = Ended(Succeeded(), 1)
AGAIN = Ended(Failed("503", retryable=True), 1)
LARGE_BODY = """
    update run set actions = jsonb_set(actions, '{0,body}', to_jsonb(
        (select string_agg(md5(random()::text), '') from generate_series(1, 400))))
    where id = any(%s)
"""


class Side:
    """What a worker has of claims and outcomes, without the worker."""

    def __init__(self, conn, pool, heard, slots):
        self.conn, self.heard, self.held = conn, heard, Held()
        self.intake = Intake(WANTED, slots, self.held, heard)
        self.recorder = Recorder(pool, self.held, heard, self.intake)

    async def claim(self):
        """What is claimed for the free slots, and begins."""
        assert await self.intake.claim(self.conn)
        return self.begun()

    def begun(self):
        claims = []
        while one := self.intake.next():
            claims.append(one)
        return claims

    async def record(self, claims, ended=DONE):
        """What begins once these outcomes are written."""
        await asyncio.gather(*(self.recorder.record(one, ended) for one in claims))
        for one in claims:
            self.held.forget(one.token)
        return self.begun()


@pytest.fixture
async def side(conn, pool, heard):
    """Make one, of so many slots."""
    async with contextlib.AsyncExitStack() as stack:

        async def made(slots):
            one = Side(conn, pool, heard, slots)
            task = asyncio.create_task(one.recorder.run())
            stack.push_async_callback(asyncio.wait, {task})
            stack.callback(task.cancel)
            return one

        yield made


async def test_outcomes_and_the_claims_in_their_place_are_one_transaction(conn, make, side):
    ids = await (await make("Safe")).queue(6)
    worker = await side(3)

    following = await worker.record(await worker.claim())

    assert [one.id for one in following] == ids[3:]
    assert await row(conn, "select count(distinct xmin::text), count(*) from run") == (1, 6)
    assert len(worker.held) == 3
    assert await jobs_that_differ(conn) == []


async def test_a_run_that_has_begun_goes_on_before_one_that_has_not(conn, make, side):
    ids = await (await make("Safe", "Safe")).queue(4)
    worker = await side(2)

    following = await worker.record(await worker.claim())

    assert [(one.id, one.ordinal) for one in following] == [(ids[0], 1), (ids[1], 1)]
    assert await jobs_that_differ(conn) == []


async def test_a_run_goes_on_at_once_though_nothing_else_is_due(conn, make, side):
    await (await make("Safe", "Safe")).queue()
    worker = await side(2)

    following = await worker.record(await worker.claim())

    assert [one.ordinal for one in following] == [1]
    assert await jobs_that_differ(conn) == []


async def test_what_goes_on_at_once_is_notified_to_nobody(conn, make, side):
    await (await make("Safe", "Safe")).queue()
    worker = await side(1)
    claims = await worker.claim()
    await conn.execute("listen procrastinate_any_queue_v1")

    assert await worker.record(claims)

    assert [one async for one in conn.notifies(timeout=0.2)] == []
    assert await jobs_that_differ(conn) == []


async def test_a_tenant_that_waits_goes_before_a_run_that_has_begun(conn, make, side):
    (begun,) = await (await make("Safe", "Safe", tenant="acme")).queue()
    worker = await side(1)
    claims = await worker.claim()
    (other,) = await (await make("Safe", tenant="bravo")).queue()
    await conn.execute("listen procrastinate_any_queue_v1")

    following = await worker.record(claims)

    assert [one.id for one in following] == [other]
    assert await jobs_that_differ(conn) == []  # the run that has begun has its job
    assert len([one async for one in conn.notifies(timeout=5, stop_after=1)]) == 1
    assert [one.id for one in await worker.record(following)] == [begun]


async def test_what_is_tried_again_later_has_its_job(conn, make, side):
    first, second = await (await make("Safe")).queue(2)
    worker = await side(1)

    following = await worker.record(await worker.claim(), AGAIN)

    assert [one.id for one in following] == [second]
    assert await row(conn, "select id from run where due_at > now()") == (first,)
    assert await jobs_that_differ(conn) == []


async def test_no_more_is_claimed_than_was_written(conn, make, side):
    moved, *_ = await (await make("Safe")).queue(6)
    worker = await side(2)
    claims = await worker.claim()
    await conn.execute("update run set version = version + 1 where id = %s", (moved,))

    await worker.record(claims)

    assert [len(one.claims) for one in worker.heard.of(Claimed)] == [2, 1, 1]
    assert len(worker.held) == 2
    assert await row(conn, "select count(*) from run where status = 'Succeeded'") == (2,)
    assert await jobs_that_differ(conn) == []


async def test_a_claim_that_fails_spoils_no_outcome(conn, make, side):
    done, odd, sound = await (await make("Safe")).queue(3)
    worker = await side(1)
    claims = await worker.claim()
    await conn.execute(
        "update run set actions = jsonb_set(actions, '{0,attempts}', '\"x\"') where id = %s", (odd,)
    )

    assert await worker.record(claims) == []

    state = "select status, actions->0->>'error' from run where id = %s"
    assert await row(conn, state, done) == ("Succeeded", None)
    assert [one.id for one in await worker.claim()] == [sound]


async def test_fewer_are_asked_for_while_claims_take_long(make, side, monkeypatch):
    await (await make("Safe")).queue(40)
    worker = await side(8)
    claims = await worker.claim()
    monkeypatch.setattr(pace, "SHARE", 0)

    asked = [len(claims)]
    for moment in (-1, -1, 60):
        monkeypatch.setattr(pace, "MOMENT", moment)
        claims = await worker.record(claims)
        asked.append(len(claims))
    asked += [len(await worker.claim()), len(await worker.claim())]

    assert asked == [8, 8, 4, 2, 4, 2]


async def test_what_one_slot_asks_for_is_no_measure_for_the_others(make, side):
    await (await make("Safe")).queue(20)
    worker = await side(8)
    one, *others = await worker.claim()

    (following,) = await worker.record([one])

    assert len(await worker.record([*others, following])) == 8


async def test_a_claim_that_takes_too_long_is_given_up_and_asks_for_fewer(
    conn, database, make, side, monkeypatch
):
    await (await make("Safe")).queue(8)
    worker = await side(8)
    monkeypatch.setattr(pace, "SHARE", 0)
    monkeypatch.setattr(intake, "WITHIN", 0.1)
    async with opened(database, 1) as (other,), other.transaction():
        await other.execute("lock table workflow in access exclusive mode")
        with pytest.raises(TimeoutError):
            await worker.claim()
    monkeypatch.undo()

    assert len(await worker.claim()) == 2
    assert await jobs_that_differ(conn) == []


async def test_a_claim_that_takes_too_long_spoils_no_outcome(
    conn, database, make, side, monkeypatch
):
    await (await make("Safe", "Safe")).queue(2)
    worker = await side(2)
    claims = await worker.claim()
    monkeypatch.setattr(intake, "BESIDE", 0.1)
    async with opened(database, 1) as (other,), other.transaction():
        await other.execute("lock table workflow in access exclusive mode")
        assert await worker.record(claims) == []

    assert await row(conn, "select count(*) from attempt") == (2,)
    assert await jobs_that_differ(conn) == []


async def test_what_was_leased_is_held_though_its_answer_was_not_read_in_time(
    conn, database, make, side, monkeypatch
):
    await (await make("Plain")).queue(2)
    worker = await side(2)
    monkeypatch.setattr(intake, "WITHIN", 0.1)
    async with opened(database, 1) as (other,):
        claiming = asyncio.create_task(worker.intake.claim(other))
        for _ in range(20):  # until it is asked
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)  # an action that holds up the loop
        assert await claiming

    assert len(worker.held) == 2
    assert await row(conn, "select count(*) from run where lease_token is not null") == (2,)


async def test_a_claim_that_is_given_up_is_ended_in_the_database(
    conn, database, make, side, monkeypatch
):
    await (await make("Safe")).queue(2)
    worker = await side(2)
    monkeypatch.setattr(intake, "WITHIN", 0.1)
    async with opened(database, 2) as (other, ours):
        async with other.transaction():
            await other.execute("lock table workflow in access exclusive mode")
            with pytest.raises(TimeoutError):
                await worker.intake.claim(ours)
        assert ours.pgconn.transaction_status == TransactionStatus.IDLE

    assert await row(conn, "select count(*) from run where lease_token is not null") == (0,)


async def test_a_run_that_takes_a_claim_too_long_by_itself_keeps_nobody_else_from_being_served(
    conn, database, make, side, monkeypatch
):
    (large,) = await (await make("Safe", tenant="acme")).queue()
    await conn.execute(LARGE_BODY, [[large]])
    (small,) = await (await make("Safe", tenant="zeta")).queue()
    worker = await side(1)
    monkeypatch.setattr(pace, "BOUNDS", (2_147_483_647, 8_000, 0))
    monkeypatch.setattr(pace, "SHARE", 0)
    with monkeypatch.context() as patched:
        patched.setattr(intake, "WITHIN", 0.1)
        async with opened(database, 1) as (other,), other.transaction():
            await other.execute("lock table workflow in access exclusive mode")
            with pytest.raises(TimeoutError):
                await worker.claim()

    claims = await worker.claim()
    assert [one.id for one in claims] == [small]
    assert await worker.record(claims) == []

    monkeypatch.setattr(worker.intake._pace, "_step_until", 0.0)  # noqa: SLF001  minutes later
    assert [one.id for one in await worker.claim()] == [large]
    assert await jobs_that_differ(conn) == []


async def test_while_large_documents_take_long_small_ones_are_claimed_in_between(
    conn, make, side, monkeypatch
):
    large = await (await make("Safe", tenant="acme")).queue(4)
    await conn.execute(LARGE_BODY, [large])
    small = await (await make("Safe", "Safe", tenant="zeta")).queue(4)
    worker = await side(4)
    monkeypatch.setattr(pace, "BOUNDS", (2_147_483_647, 8_000))
    with monkeypatch.context() as patched:
        patched.setattr(pace, "MOMENT", -1)
        patched.setattr(pace, "SHARE", 1_000_000)
        first = await worker.claim()
    assert {one.id for one in first} == {*large[:2], *small[:2]}

    claims = await worker.record(first)
    assert {one.id for one in claims} == {*small}

    assert await worker.record(await worker.record(claims)) == []
    assert not await worker.intake.claim(conn)  # nothing small is due any more
    assert {one.id for one in await worker.claim()} == {*large[2:]}


async def test_nothing_is_claimed_once_the_worker_stops(conn, make, side):
    await (await make("Safe", "Safe")).queue(2)
    worker = await side(1)
    claims = await worker.claim()
    worker.intake.close()

    assert await worker.record(claims) == []

    assert await row(conn, "select count(*) from run where lease_token is not null") == (0,)
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(
    "change",
    [
        "update workflow set enabled = false",
        "update run set executor = 'another', version = version + 1",
        "update run set document_format = 99, version = version + 1",
    ],
)
async def test_a_run_that_is_not_to_go_on_does_not(conn, make, side, change):
    await (await make("Safe", "Safe")).queue()
    worker = await side(1)
    claims = await worker.claim()
    await conn.execute(change)

    assert await worker.record(claims) == []

    assert await row(conn, "select actions->1->>'status' from run") == (None,)


async def test_an_action_of_a_type_that_is_not_served_is_left(conn, make, side):
    await (await make("Safe", "Other")).queue()
    worker = await side(1)

    assert await worker.record(await worker.claim()) == []

    assert await row(conn, "select due_type from run") == ("Other",)
    assert await jobs_that_differ(conn) == []


async def test_a_cancelled_run_does_not_go_on(conn, make, side):
    await (await make("Safe", "Safe")).queue()
    worker = await side(1)
    claims = await worker.claim()
    await conn.execute(
        """update run set version = version + 1, cancelled_at = now(),
           actions = jsonb_set(actions, '{1}', '{"status": "Cancelled"}')"""
    )

    assert await worker.record(claims) == []

    assert await row(conn, "select status from run") == ("Cancelled",)
    assert await jobs_that_differ(conn) == []
