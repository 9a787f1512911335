"""Outcomes on their way into the database: in groups, anew, reduced, too late."""

import asyncio
import contextlib
import uuid
from dataclasses import replace

import pytest
from fix_queue import WANTED, jobs_that_differ, row, writing
from psycopg import OperationalError

from procession.engine.delivery import Delivery
from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.engine.workflow import ActionDefinition
from procession.queue import pending, record
from procession.queue.claim import claim
from procession.queue.pending import UNSTORABLE, Ended
from procession.queue.record import ClosedError, Recorder
from procession.queue.types import Discarded, Recorded, Released, about

HISTORY = "select outcome, error from attempt order by position desc limit 1"


async def test_outcomes_that_are_ready_together_are_written_together(conn, make, recorder, heard):
    await (await make("Safe")).queue(20)
    claims = await claim(conn, WANTED, 20)

    await asyncio.gather(*(recorder.record(one, Ended(Succeeded(), 1)) for one in claims))

    assert len(heard.of(Recorded)) == 20
    written = "select count(distinct xmin::text), count(*) from run"
    assert await row(conn, written) == (1, 20)
    assert await row(conn, "select count(*) from run where status = 'Succeeded'") == (20,)
    assert await jobs_that_differ(conn) == []


async def test_no_more_large_documents_are_written_together_than_there_is_time_for(
    conn, make, recorder, monkeypatch
):
    await (await make("Safe")).queue(3)
    claims = await claim(conn, WANTED, 3)
    monkeypatch.setattr(pending, "LARGE", 1_000)  # of some 600 each

    await asyncio.gather(*(recorder.record(one, Ended(Succeeded(), 1)) for one in claims))

    written = "select count(distinct xmin::text), count(*) from run where status = 'Succeeded'"
    assert await row(conn, written) == (2, 3)


async def test_an_outcome_waits_a_moment_for_those_beside_it(
    conn, make, recorder, held, monkeypatch
):
    monkeypatch.setattr(record, "TURNS", 50)
    await (await make("Safe")).queue(2)
    claims = await claim(conn, WANTED, 2)
    held.add(claims)

    first = asyncio.create_task(recorder.record(claims[0], Ended(Succeeded(), 1)))
    for _ in range(5):
        await asyncio.sleep(0)
    await recorder.record(claims[1], Ended(Succeeded(), 1))
    await first

    assert await row(conn, "select count(distinct xmin::text), count(*) from run") == (1, 2)


@pytest.mark.parametrize("seconds", [0, 60])
async def test_what_performs_for_longer_than_writing_takes_is_written_by_halves(
    conn, make, recorder, held, seconds
):
    await (await make("Safe")).queue(20)
    first, *others = await claim(conn, WANTED, 20)
    held.add(others)

    await recorder.record(first, Ended(Succeeded(), 1))
    ended = Ended(Succeeded(), seconds * 1000)
    await asyncio.gather(*(recorder.record(one, ended) for one in others))

    written = "select count(distinct xmin::text), count(*) from run where status = 'Succeeded'"
    assert await row(conn, written) == (3 if seconds else 2, 20)


async def test_an_outcome_that_is_alone_does_not_wait(conn, make, recorder, held, monkeypatch):
    monkeypatch.setattr(record, "TURNS", 10**9)
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    held.add([taken])

    async with asyncio.timeout(10):
        assert await recorder.record(taken, Ended(Succeeded(), 1))


async def test_an_outcome_is_decided_anew_when_the_run_was_written_meanwhile(conn, make, recorder):
    await (await make("Safe", "Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute(
        """update run set version = version + 1, cancelled_at = now(),
           actions = jsonb_set(actions, '{1}', '{"status": "Cancelled"}')"""
    )

    step = await recorder.record(taken, Ended(Failed("503", retryable=True), 1))

    assert step.run.cancelled_at is not None
    state = "select status, actions->0->>'status', completed_at is null from run"
    assert await row(conn, state) == ("Cancelled", "Failed", False)
    assert await jobs_that_differ(conn) == []


async def test_an_outcome_that_comes_too_late_is_discarded(conn, make, recorder, heard):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute("update run set lease_until = now() - interval '1 s'")

    assert await recorder.record(taken, Ended(Failed("503"), 1)) is None

    assert await row(conn, HISTORY) == ("Discarded", "late outcome Failed, not applied: 503")
    state = "select status, lease_token from run"
    assert await row(conn, state) == ("Running", taken.token)
    assert heard.of(Recorded) == []
    assert heard.of(Discarded) == [Discarded(taken)]
    assert await jobs_that_differ(conn) == []


async def test_a_late_outcome_of_a_run_that_is_gone_is_only_counted(conn, make, recorder, heard):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute("delete from run")

    assert await recorder.record(taken, Ended(Succeeded(), 1)) is None

    assert heard.of(Discarded) == [Discarded(taken)]


@pytest.mark.parametrize("text", ["a\0b", "half \ud800", "x" * 501])
async def test_what_cannot_be_stored_is_reduced_and_holds_up_nobody(conn, make, recorder, text):
    await (await make("Safe")).queue(3)
    claims = await claim(conn, WANTED, 3)
    outcomes = [Succeeded(), Failed(text), Succeeded()]

    steps = await asyncio.gather(
        *(recorder.record(one, Ended(out, 1)) for one, out in zip(claims, outcomes, strict=True))
    )

    assert all(steps)
    cursor = await conn.execute("select outcome, error from attempt where outcome <> 'Succeeded'")
    assert await cursor.fetchall() == [("Failed", UNSTORABLE)]
    assert await jobs_that_differ(conn) == []


async def test_a_claim_is_given_back(conn, make, recorder, heard):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)

    await recorder.release(taken)

    assert (await row(conn, HISTORY))[0] == "Released"
    assert await row(conn, "select due_at = created_at, status from run") == (True, "Pending")
    assert len(heard.of(Released)) == 1
    assert await jobs_that_differ(conn) == []


async def test_what_may_not_be_repeated_is_unknown_unless_it_never_began(conn, make, recorder):
    await (await make("Plain")).queue(2)
    begun, unbegun = await claim(conn, WANTED, 2)

    await recorder.release(begun)
    await recorder.release(unbegun, started=False)

    cursor = await conn.execute("select outcome from attempt order by outcome")
    assert await cursor.fetchall() == [("Released",), ("Unknown",)]
    assert await jobs_that_differ(conn) == []


async def test_an_outcome_waits_for_a_database_that_does_not_answer(conn, make, recorder, heard):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    others = """select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()"""
    await conn.execute(others)

    assert await recorder.record(taken, Ended(Unknown("cut off"), 1))

    assert (await row(conn, HISTORY))[0] == "Unknown"
    assert len(heard.of(Recorded)) == 1


async def test_a_write_whose_answer_was_lost_is_not_taken_for_a_late_one(conn, pool, make, held):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    deaf = Deaf(pool)

    async with writing(Recorder(deaf, held)) as recorder:
        assert await recorder.record(taken, Ended(Succeeded(), 1)) is not None

    assert deaf.lost == 1
    assert await row(conn, "select count(*), min(outcome) from attempt") == (1, "Succeeded")


class Deaf:
    """A pool whose first statement is carried out, and its answer is lost."""

    def __init__(self, pool):
        self._pool, self.lost = pool, 0

    @contextlib.asynccontextmanager
    async def connection(self):
        async with self._pool.connection() as one:
            self._conn = one
            yield one if self.lost else self

    async def execute(self, *given):
        await self._conn.execute(*given)
        self.lost += 1
        raise LostError


class LostError(OperationalError):
    pass


async def test_a_lost_claim_records_nothing(conn, make, recorder, held, heard):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    held.add([taken])
    async with conn.transaction():
        await conn.execute("select from run for update")
        task = asyncio.create_task(recorder.record(taken, Ended(Succeeded(), 1)))
        held.begin(taken.token, task)
        await asyncio.sleep(0)
        held.lose([taken.token])
        with pytest.raises(asyncio.CancelledError):
            await task

    assert heard.of(Recorded) == []


async def test_nothing_is_taken_once_the_recorder_has_ended(conn, pool, make, held):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    recorder = Recorder(pool, held)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    with pytest.raises(ClosedError):
        await recorder.record(taken, Ended(Succeeded(), 1))

    assert await row(conn, "select status from run") == ("Running",)


class Wild(str):
    """A text that others have made their own."""

    __slots__ = ()


class Raising(dict):
    def __contains__(self, name):
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(Wild("no")),
        Failed("no", response_status=Wild("503")),
        Unknown(object()),
        Succeeded(Raising()),
        Succeeded(None),
    ],
)
async def test_whatever_an_outcome_throws_what_happened_is_recorded(
    conn, make, recorder, caplog, outcome
):
    capturing = ActionDefinition(type="Safe", capture=("id",))
    await (await make(capturing)).queue(3)
    claims = await claim(conn, WANTED, 3)
    outcomes = [Succeeded(), outcome, Succeeded()]

    steps = await asyncio.gather(
        *(recorder.record(one, Ended(out, 1)) for one, out in zip(claims, outcomes, strict=True))
    )

    assert all(steps)
    told = "select outcome, error from attempt where run_id = %s"
    assert await row(conn, told, claims[1].id) == (type(outcome).__name__, UNSTORABLE)
    assert await jobs_that_differ(conn) == []
    assert "secret" not in caplog.text
    (line,) = [one for one in caplog.records if "cannot be stored as it is" in one.getMessage()]
    assert line.name == "procession.queue.pending"


async def test_what_is_said_of_it_names_the_run(conn, make, recorder, caplog):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    seen = []
    caplog.handler.addFilter(lambda _: seen.append(about.get()) or True)

    await recorder.record(taken, Ended(Failed("half \ud800"), 1))

    assert [one.run for one in seen] == [taken.id]


async def test_a_body_that_is_no_text_is_not_kept(conn, make, recorder):
    await (await make("Safe")).queue(3)
    odd, plain, back = await claim(conn, WANTED, 3)
    again = Failed("503", retryable=True)

    await recorder.record(odd, Ended(again, 1, body=7))
    await recorder.record(plain, Ended(again, 1, body=Wild("as sent")))
    await recorder.release(back, body="half \ud800")

    bodies = "select array_agg(actions->0->'body' order by id) from run"
    assert await row(conn, bodies) == ([None, "as sent", None],)
    assert await jobs_that_differ(conn) == []


SENT = Delivery(
    delivery_id=uuid.UUID(int=1),
    method="POST",
    url=Wild("https://example.com"),
    request_headers={},
    requests_sent=1,
    duration_ms=1,
)


@pytest.mark.parametrize("delivery", [None, "sent", SENT])
async def test_a_delivery_that_makes_no_row_is_in_no_outcomes_way(conn, make, recorder, delivery):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)

    assert await recorder.record(taken, Ended(Succeeded(), 1, deliveries=(delivery,)))

    assert await row(conn, "select status from run") == ("Succeeded",)


EDITS = {
    "attempts in words": "actions = jsonb_set(actions, '{1,attempts}', '\"x\"')",
    "outputs as a list": "outputs = '[]'",
    "two in flight": 'actions = actions || \'[{"status": "Running"}]\'',
    "another in flight": """actions = '[{"status": "Pending"}, {"status": "Running"}]'""",
    "one action less": """actions = '[{"status": "Running"}]'""",
    "two actions more": """actions = '[{"status": "Running"}, {}, {}, {}]'""",
    "an object": """actions = '{"status": "Running"}'""",
    "undos without end": """actions = (select jsonb_build_array(
        (repeat('{"status": "Running", "undo": ', 2000) || '{}' || repeat('}', 2000))::jsonb))""",
}


@pytest.mark.parametrize("name", EDITS)
async def test_a_run_that_was_edited_meanwhile_is_left_to_its_lease(
    conn, make, recorder, heard, name
):
    ids = await (await make("Safe", "Plain")).queue(3)
    claims = await claim(conn, WANTED, 3)
    edited = f"update run set version = version + 1, {EDITS[name]} where id = %s"
    await conn.execute(edited, (ids[1],))

    async with asyncio.timeout(10):
        await asyncio.gather(*(recorder.record(one, Ended(Succeeded(), 1)) for one in claims))
        await (await make("Safe")).queue()
        (after,) = await claim(conn, replace(WANTED, types=("Safe",)), 1)
        assert await recorder.record(after, Ended(Succeeded(), 1))

    assert {one.claim.id for one in heard.of(Recorded)} >= {ids[0], ids[2], after.id}
