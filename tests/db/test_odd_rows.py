"""Rows that somebody edited by hand: what is wrong with one of them holds up no other."""

import asyncio

import pytest
from fix_queue import WANTED, age, jobs_that_differ, row
from psycopg.errors import QueryCanceled

from procession.app import keeper
from procession.queue import rescue as rescuing
from procession.queue import unread as leaving
from procession.queue.claim import claim
from procession.queue.mend import Place, mend
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.types import Beaten, Recorded, Unserved
from procession.queue.unserved import fail_unserved, mark


@pytest.fixture
def unread(monkeypatch):
    """Nothing is known to be unreadable."""
    monkeypatch.setattr(rescuing, "_unread", rescuing.Unread())


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("limit", [1, 20])
@pytest.mark.parametrize(
    ("name", "value"), [("failures", '"x"'), ("completed_at", "9"), ("attempts", "9999999999")]
)
async def test_runs_that_cannot_be_kept_are_left_and_said_once(  # noqa: PLR0913, PLR0917  a row of the table
    conn, kept, make, caplog, name, value, limit
):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    await age(conn, lease_until=16)
    odd = """update run set actions = jsonb_set(actions, array['0', %(name)s], %(value)s),
                            lease_until = lease_until - interval '1 s'
             where id in (select id from run order by id limit 2) returning id"""
    cursor = await conn.execute(odd, {"name": name, "value": value})
    left = {id_ for (id_,) in await cursor.fetchall()}

    rescued = [await asyncio.to_thread(rescue, kept, limit) for _ in range(3)]

    assert [len(some) for some in rescued] == [1, 0, 0]
    assert rescued[0][0].run_id not in left
    said_of = "Run {} cannot be read or written and is left as it is"
    said = [one.getMessage() for one in caplog.records]
    assert sorted(said) == sorted(said_of.format(id_) for id_ in left)
    assert await row(conn, "select count(*) from run where lease_token is not null") == (2,)


@pytest.mark.usefixtures("unread")
async def test_a_run_that_was_put_right_is_ended(conn, kept, make, monkeypatch):
    monkeypatch.setattr(leaving, "LEFT", 0)
    await (await make("Safe")).queue()
    await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    await conn.execute("update run set outputs = '[]'")
    assert await asyncio.to_thread(rescue, kept) == []

    await conn.execute("update run set outputs = '{}'")

    assert len(await asyncio.to_thread(rescue, kept)) == 1


OF = "where queueing_lock = 'run:' || %(run)s"
COPY = (
    """
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, status)
    select queue_name, task_name, {}, {}, '{}' from procrastinate_jobs
"""
    + OF
)
JOBS = {
    "the lock of another": "update procrastinate_jobs set lock = 'run:' || %(other)s " + OF,
    "no lock": "update procrastinate_jobs set lock = null " + OF,
    "no queueing lock": "update procrastinate_jobs set queueing_lock = null " + OF,
    "no locks": "update procrastinate_jobs set lock = null, queueing_lock = null " + OF,
    "another queue": "update procrastinate_jobs set queue_name = 'zzz' " + OF,
    "failed": "update procrastinate_jobs set status = 'failed' " + OF,
    "doing": "update procrastinate_jobs set status = 'doing' " + OF,
    "doing, no lock": "update procrastinate_jobs set status = 'doing', lock = null " + OF,
    "doubled": COPY.format("lock", "null", "todo"),
    "doubled, failed": COPY.format("lock", "lock", "failed"),
    "doubled, doing": COPY.format("null", "null", "doing"),
    "all but an id": COPY.format("'run:' || repeat('-', 36)", "null", "doing"),
    "all but an id, waiting": COPY.format("null", "'run:' || repeat('-', 36)", "todo"),
    "another task": "update procrastinate_jobs set task_name = 'nope', args = '[1]' " + OF,
    "another lock": "update procrastinate_jobs set lock = 'a', queueing_lock = 'b' " + OF,
}


@pytest.fixture
async def odd(conn, make, request):
    """Four runs, and a job of one of them that somebody has edited."""
    ids = await (await make("Safe")).queue(4)
    await conn.execute(JOBS[request.param], {"run": ids[1], "other": ids[0]})
    return ids


@pytest.mark.parametrize("odd", JOBS, indirect=True)
async def test_a_claim_takes_what_is_due_whatever_its_job_says(conn, kept, odd):
    await asyncio.to_thread(mend, kept, Place())  # one in doing keeps its run until then
    taken = await claim(conn, WANTED, 9)

    assert {one.id for one in taken} == set(odd)
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize("odd", sorted(JOBS.keys() - {"doing"}), indirect=True)
async def test_a_claim_does_not_wait_for_a_job_to_be_put_right(conn, odd):
    assert {one.id for one in await claim(conn, WANTED, 9)} == set(odd)


@pytest.mark.parametrize("odd", JOBS, indirect=True)
@pytest.mark.usefixtures("odd")
async def test_an_odd_job_is_put_right(conn, kept):
    assert await asyncio.to_thread(mend, kept, Place()) == Place()

    assert await jobs_that_differ(conn) == []
    assert await row(conn, "select count(*) from procrastinate_jobs") == (4,)
    same = "select count(*) from procrastinate_jobs where lock = queueing_lock"
    assert await row(conn, same) == (4,)


async def test_jobs_that_are_right_are_left(conn, kept, make):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 1)
    before = await row(conn, "select array_agg(id order by id) from procrastinate_jobs")

    await asyncio.to_thread(mend, kept, Place())

    assert await row(conn, "select array_agg(id order by id) from procrastinate_jobs") == before


async def test_what_is_no_attempt_is_left(conn, kept):
    await conn.execute(
        """insert into procrastinate_jobs (queue_name, task_name, queueing_lock, status)
           values ('maintenance', 'retention', 'retention', 'todo'),
                  ('maintenance', 'retention', null, 'failed')"""
    )

    await asyncio.to_thread(mend, kept, Place())

    assert await row(conn, "select count(*) from procrastinate_jobs") == (2,)


DOCUMENTS = {
    "an object": "{}",
    "a text": '"Pending"',
    "no actions": "[]",
    "a text for an action": '["x"]',
    "attempts in words": '[{"attempts": "x"}]',
    "attempts past counting": '[{"attempts": 9999999999}]',
    "attempts far below none": '[{"attempts": -9999999999}]',
    "attempts in a list": '[{"attempts": [1]}]',
    "attempts at the end": '[{"attempts": 2147483647}]',
    "text for an undo": '[{"status": "Succeeded", "undo": "x"}]',
    "no undo": '[{"status": "Succeeded"}]',
    "undos without end": "[" + '{"undo": ' * 3_000 + "{}" + "}" * 3_000 + "]",
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_claim_of_one_that_cannot_be_read_holds_up_no_other(conn, make, name):
    ids = await (await make("Safe")).queue(3)
    odd = "update run set actions = %s, due_undo = %s where id = %s"
    await conn.execute(odd, (DOCUMENTS[name], name.endswith("undo"), ids[0]))

    taken = [one.id for _ in range(4) for one in await claim(conn, WANTED, 1)]

    assert taken == ids[1:]


async def test_a_run_whose_versions_are_at_their_end_holds_up_no_other(conn, kept, make):
    ids = await (await make("Safe")).queue(3)
    await conn.execute("update run set version = 2147483647 where id = %s", (ids[0],))

    taken = [one.id for _ in range(4) for one in await claim(conn, WANTED, 1)]
    await asyncio.to_thread(mark, kept, Place())

    assert taken == ids[1:]


async def test_an_entry_that_is_too_deep_to_be_read_holds_up_no_other(conn, make):
    (deep,) = await (await make("Safe", tenant="acme")).queue()
    (sound,) = await (await make("Safe", tenant="bravo")).queue()
    data = f'{{"title": {"[" * 3_000}{"]" * 3_000}}}'
    await conn.execute("update entry set data = %s where tenant = 'acme'", (data,))

    taken = [one.id for _ in range(2) for one in await claim(conn, WANTED, 2)]

    assert taken == [sound]
    held = "select id from run where lease_token is not null order by lease_token"
    assert await row(conn, held) == (deep,)


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "0044-03-15 BC", "20000-01-01"])
@pytest.mark.parametrize("column", ["due_at", "created_at", "cancelled_at"])
async def test_a_moment_that_no_calendar_has_holds_up_no_duty(conn, kept, make, column, moment):
    ids = await (await make("Safe", "Plain")).queue(3)
    await claim(conn, WANTED, 2)
    await age(conn, lease_until=16)
    run_id = ids[2] if column == "due_at" else ids[0]
    await conn.execute(f"update run set {column} = %s where id = %s", (moment, run_id))
    await conn.execute("update workflow set enabled = false")

    rescued = await asyncio.to_thread(rescue, kept)
    stopped = await asyncio.to_thread(stop_switched_off, kept)
    await asyncio.to_thread(mend, kept, Place())
    await asyncio.to_thread(mark, kept, Place())
    await asyncio.to_thread(fail_unserved, kept)

    assert ids[1] in {one.run_id for one in rescued}
    assert ids[1] in {one.run_id for one in stopped}


class Duties:
    """What a keeper did, for a test whose own duty fails."""

    def __init__(self, error):
        self.error, self.failed = error, 0

    def fail(self, *_):
        self.failed += 1
        raise self.error


@pytest.mark.parametrize("error", [RecursionError(), ValueError(), QueryCanceled()])
async def test_a_duty_that_fails_again_and_again_holds_up_no_other(  # noqa: PLR0913, PLR0917  of a run
    conn, make, worked, monkeypatch, caplog, error
):
    duties = Duties(error)
    monkeypatch.setattr(keeper, "rescue", duties.fail)
    await (await make("Nobody", "Safe")).queue()
    async with worked.working() as ours:
        await worked.heard.wait(Beaten)
        await conn.execute("update worker set started_at = started_at - interval '1 day'")
        await conn.execute("update run set no_worker_since = now() - interval '11 min'")
        await worked.heard.wait(Unserved, seconds=20)
        await worked.heard.wait(Recorded)
        assert not ours.task.done()

    assert duties.failed
    assert "keeper" in caplog.text
