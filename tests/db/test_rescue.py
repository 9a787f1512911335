"""What a keeper does: leases renewed and rescued, switched-off workflows, jobs put right."""

import asyncio
import json
import uuid
from time import monotonic

import pytest
from fix_queue import WANTED, age, jobs_that_differ, row
from msgspec.structs import replace

from procession.app import keeper
from procession.app.logs import Lines
from procession.queue import mend as mending
from procession.queue import rescue as rescuing
from procession.queue.claim import claim
from procession.queue.leases import Held, Unrenewed, connection, renew
from procession.queue.mend import Place, mend
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.types import Rescued
from procession.queue.workers import Worker, beat, leave

LOST = "run set lease_until = now() - interval '1 s'"


@pytest.fixture
def said(caplog):
    """What is logged: level, message and the run that it is about."""
    caplog.handler.setFormatter(Lines())

    def lines():
        found = map(json.loads, caplog.text.splitlines())
        return [(one["level"], one["message"], one["run"]) for one in found]

    return lines


async def lapse(conn, made, **actions):
    """A run of this workflow whose first attempt has lapsed."""
    await made.queue()
    (taken,) = await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    for name, value in actions.items():
        await conn.execute(
            "update run set actions = jsonb_set(actions, array['0', %s], to_jsonb(%s::int))",
            (name, value),
        )
    return taken


@pytest.mark.parametrize(
    ("kind", "lost", "cancelled", "status", "outcome"),
    [
        ("Safe", 0, False, "Pending", "Lost"),
        ("Safe", 1, False, "Pending", "Lost"),
        ("Safe", 2, False, "Unknown", "Lost"),
        ("Plain", 0, False, "Unknown", "Unknown"),
        ("Safe", 0, True, "Unknown", "Unknown"),
    ],
)
async def test_a_lapsed_attempt_is_ended(  # noqa: PLR0913, PLR0917  a row of the table
    conn, kept, make, kind, lost, cancelled, status, outcome
):
    await lapse(conn, await make(kind), lost=lost)
    if cancelled:
        await conn.execute("update run set cancelled_at = now()")

    (rescued,) = await asyncio.to_thread(rescue, kept)

    assert rescued.step.run.actions[0].status == status
    assert await row(conn, "select actions->0->>'status' from run") in ((status,), (None,))
    assert await row(conn, "select outcome from attempt") == (outcome,)
    assert await jobs_that_differ(conn) == []


async def test_a_lease_that_is_live_is_left(conn, kept, make):
    await (await make("Safe")).queue()
    await claim(conn, WANTED, 1)

    assert await asyncio.to_thread(rescue, kept) == []


async def test_two_rescuers_end_an_attempt_once(conn, database, make):
    made = await make("Safe")
    for _ in range(5):
        await lapse(conn, made)
    barrier = asyncio.Barrier(2)

    async def one():
        await barrier.wait()
        return await asyncio.to_thread(rescue_on_its_own, database)

    rescued = await asyncio.gather(one(), one())

    assert sum(map(len, rescued)) == 5
    assert await row(conn, "select count(*) from attempt") == (5,)
    assert await jobs_that_differ(conn) == []


def rescue_on_its_own(database):
    with connection(database) as conn:
        return rescue(conn)


async def test_a_renewal_moves_the_end_of_the_lease_only(conn, kept, make):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await age(conn, lease_until=6)
    before = await row(conn, "select version, updated_at, actions from run")

    assert await asyncio.to_thread(renew, kept, [taken]) == Unrenewed()

    assert await row(conn, "select version, updated_at, actions from run") == before
    left = "select lease_until - now() > interval '14 s' from run"
    assert await row(conn, left) == (True,)


@pytest.mark.parametrize("change", ["lease_token = 0", "lease_until = now() - interval '1 s'"])
async def test_a_renewal_says_what_is_gone(conn, kept, make, change):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute(f"update run set {change}")

    assert (await asyncio.to_thread(renew, kept, [taken])).gone == {taken.token}


async def test_what_was_not_renewed_for_ten_seconds_is_cancelled_and_named(conn, make, said):
    await (await make("Safe")).queue(2)
    old, new = await claim(conn, WANTED, 2)
    held = Held()
    held.add([old, new])
    going_on = asyncio.Event()
    task = asyncio.create_task(going_on.wait())
    held.begin(old.token, task)

    held.renewed(monotonic() - 11, [old.token, new.token])
    held.fence()
    assert not held.is_lost(old.token)
    held.add([replace(old, asked_at=old.asked_at - 11)])
    for _ in range(2):  # it is said once
        held.fence()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.is_lost(old.token)
    assert not held.is_lost(new.token)
    text = "Action 0 Safe is cancelled: its lease could not be renewed"
    assert said() == [("warning", text, str(old.id))]


async def test_what_lost_its_lease_is_named(conn, make, said):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    held = Held()
    held.add([taken])

    for _ in range(2):
        held.lose([taken.token, 4711])

    text = "Action 0 Safe is cancelled: its lease is gone"
    assert said() == [("warning", text, str(taken.id))]


async def test_what_was_claimed_too_long_ago_does_not_begin(conn, make):
    await (await make("Safe")).queue(2)
    old, new = await claim(conn, WANTED, 2)
    held = Held()
    held.add([replace(old, asked_at=old.asked_at - 11), new])
    held.renewed(monotonic(), [])
    task = asyncio.create_task(asyncio.sleep(0))

    assert held.begin(old.token, task) is None
    assert held.begin(new.token, task) == new

    await task


async def test_the_rest_of_a_switched_off_workflows_run_is_cancelled(conn, kept, make):
    made = await make("Safe", "Safe")
    await made.queue(2)
    later = """update run set due_at = now() + interval '1 h'
               where id = (select max(id::text)::uuid from run)"""
    await conn.execute(later)
    await conn.execute(
        "update procrastinate_jobs set scheduled_at = run.due_at from run"
        " where lock = 'run:' || run.id"
    )
    assert await asyncio.to_thread(stop_switched_off, kept) == []
    await conn.execute("update workflow set enabled = false")

    (stopped,) = await asyncio.to_thread(stop_switched_off, kept)

    assert {one.status for one in stopped.step.run.actions} == {"Cancelled"}
    cursor = await conn.execute("select status from run order by status")
    assert await cursor.fetchall() == [("Cancelled",), ("Pending",)]
    assert await jobs_that_differ(conn) == []


WRONG = """
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, status)
    values ('default', 'attempt', %(lock)s, %(lock)s, %(status)s)
"""


async def test_jobs_are_put_right(conn, kept, make):
    made = await make("Safe")
    stale, bare, _ = await made.queue(3)
    await conn.execute(WRONG, {"lock": f"run:{stale}", "status": "doing"})
    await conn.execute("delete from procrastinate_jobs where lock = %s", (f"run:{bare}",))
    for lock in (f"run:{uuid.uuid4()}", "run:nonsense"):
        await conn.execute(WRONG, {"lock": lock, "status": "todo"})
        await conn.execute(WRONG, {"lock": lock, "status": "doing"})
    assert len(await jobs_that_differ(conn)) == 6

    assert await asyncio.to_thread(mend, kept, Place()) == Place()

    assert await jobs_that_differ(conn) == []


async def test_the_walk_goes_on_where_it_came_to(conn, kept, make, monkeypatch):
    monkeypatch.setattr(mending, "STRETCH", 2)
    ids = await (await make("Safe")).queue(5)
    await conn.execute("delete from procrastinate_jobs")

    place = Place()
    for _ in range(3):
        place = await asyncio.to_thread(mend, kept, place)

    assert place.tenant == ""
    assert await row(conn, "select count(*) from procrastinate_jobs") == (len(ids),)


async def test_jobs_of_what_is_in_flight_are_left(conn, kept, make):
    await (await make("Safe")).queue(2)
    await claim(conn, WANTED, 1)

    await asyncio.to_thread(mend, kept, Place())

    assert await jobs_that_differ(conn) == []


async def test_a_worker_is_known_while_it_lives(conn, kept):
    worker = Worker(id=uuid.uuid4(), release="1.2.3", types=("Safe",), claims=True)
    for _ in range(2):
        await asyncio.to_thread(beat, kept, worker)
    found = "select id, release, action_types, claims from worker"
    assert await row(conn, found) == (worker.id, "1.2.3", ["Safe"], True)

    await asyncio.to_thread(leave, kept, worker)

    assert await row(conn, found) is None


LARGE_BODY = """
    update run set actions = jsonb_set(actions, '{0,body}', to_jsonb(
        (select string_agg(md5(random()::text), '') from generate_series(1, 200))))
"""


async def test_documents_that_are_stored_small_are_weighed_by_what_they_unpack_to(
    conn, kept, make, monkeypatch
):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    body = "to_jsonb(repeat('One word. ', 9000))"
    await conn.execute(f"update run set actions = jsonb_set(actions, '{{0,body}}', {body})")
    assert await row(conn, "select max(pg_column_size(actions)) < 2000 from run") == (True,)
    await age(conn, lease_until=16)
    monkeypatch.setattr(rescuing, "LARGE", 20_000)

    rescued = [await asyncio.to_thread(rescue, kept) for _ in range(4)]

    assert [len(some) for some in rescued] == [1, 1, 1, 0]


@pytest.mark.parametrize("bound", ["LARGE", "LARGEST"])
async def test_no_more_large_documents_are_ended_at_once_than_there_is_time_for(
    conn, kept, make, monkeypatch, bound
):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    await conn.execute(LARGE_BODY)
    await age(conn, lease_until=16)
    monkeypatch.setattr(rescuing, bound, 8_000)  # of 6,400 each

    rescued = [await asyncio.to_thread(rescue, kept) for _ in range(3)]

    assert [len(some) for some in rescued] == [2, 1, 0]
    assert await jobs_that_differ(conn) == []


async def test_what_was_more_than_one_batch_is_ended_in_the_same_round(
    conn, make, worked, monkeypatch
):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    await age(conn, lease_until=16)
    monkeypatch.setattr(rescuing, "LARGE", 1)
    monkeypatch.setattr(keeper, "RESCUE", 600)

    async with worked.working():
        await worked.heard.wait(Rescued, 3)


@pytest.mark.parametrize("large", [rescuing.LARGE, 1])
async def test_what_is_larger_than_postgres_takes_holds_up_no_other(
    conn, kept, make, monkeypatch, large
):
    monkeypatch.setattr(rescuing, "LARGE", large)
    monkeypatch.setattr(rescuing, "_unread", rescuing.Unread())
    left, *_ = await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    await age(conn, lease_until=16)
    await conn.execute(
        "update run set lease_until = lease_until - interval '1 s' where id = %s", [left]
    )
    await conn.execute(
        f"""create function refuse() returns trigger language plpgsql as
                $$ begin raise exception 'too large' using errcode = '54000'; end $$;
            create trigger refuse before update on run
                for each row when (old.id = '{left}') execute function refuse()"""
    )

    rescued = [await asyncio.to_thread(rescue, kept) for _ in range(3)]
    await conn.execute("drop trigger refuse on run; drop function refuse()")

    assert [len(some) for some in rescued] == ([1, 1, 0] if large == 1 else [2, 0, 0])
    assert await row(conn, "select id from run where lease_token is not null") == (left,)
