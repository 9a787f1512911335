"""The delivery log: written with the outcome, and never in its way."""

import asyncio
import contextlib
import uuid
from datetime import timedelta

import pytest
from fix_queue import WANTED, Heard, jobs_that_differ, row, running, writing
from fix_receiver import answer, hang, reset
from fix_runs import until_blocked
from psycopg import OperationalError
from psycopg.rows import dict_row

from procession.actions.load import built_in, load
from procession.actions.webhook import delivery_id
from procession.app.runner import Options, Runner
from procession.engine.delivery import Delivery
from procession.engine.outcome import Failed, Succeeded
from procession.engine.workflow import ActionDefinition
from procession.outbound.retry import Tries
from procession.queue import pending
from procession.queue.claim import claim
from procession.queue.deliveries import DELIVER
from procession.queue.record import Ended, Recorder
from procession.queue.types import Claimed, Recorded, Released, Rescued

QUICK = Tries(floor=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=2))
SENT = Delivery(
    delivery_id=uuid.UUID(int=5),
    method="POST",
    url="https://hooks.example.com",
    request_headers={"webhook-id": "5"},
    requests_sent=1,
    duration_ms=7,
    response_status=200,
    response_body="ok",
)


async def rows(conn, columns="*"):
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(f"select {columns} from delivery order by created_at, id")
        return await cursor.fetchall()


@pytest.fixture
def posting(database, pool, make_client):
    """A worker of the built-in actions."""
    heard = Heard()

    @contextlib.asynccontextmanager
    async def working(**options):
        given = {"grace": timedelta(seconds=5)} | options
        client = make_client(tries=QUICK)
        registry = load(built_in(), [])
        runner = Runner(pool, Options(database=database, **given), registry, client, tell=heard)
        async with running(runner):
            yield heard

    return working


def webhook(receiver):
    parameters = {"Url": receiver.url("/hook?token=abc")}
    return ActionDefinition(type="Webhook", parameters=parameters)


async def until(holds):
    """Wait for what is written after the outcome."""
    async with asyncio.timeout(10):
        while True:
            if found := holds() if not asyncio.iscoroutinefunction(holds) else await holds():
                return found
            await asyncio.sleep(0.01)


def logged(conn, count):
    """The rows, once there are so many."""

    async def found():
        all_of_them = await rows(conn)
        return all_of_them if len(all_of_them) >= count else None

    return until(found)


async def test_each_attempt_of_a_webhook_leaves_a_row(conn, make, posting, receiver):
    receiver.will(answer(503, b"busy"), answer(503), answer(400, b"no\0 \xff", [("X-A", "b")]))
    made = await make(webhook(receiver))
    (run_id,) = await made.queue()

    async with posting() as heard:
        await heard.wait(Recorded)

    (delivery,) = await rows(conn)
    assert isinstance(delivery.pop("id"), uuid.UUID)
    headers = delivery.pop("request_headers")
    assert (await row(conn, "select now()"))[0] - delivery.pop("created_at") < timedelta(minutes=1)
    assert delivery.pop("duration_ms") >= 0
    assert delivery == {
        "tenant": "default",
        "delivery_id": uuid.UUID(delivery_id(f"{run_id.hex}-0")),
        "workflow_id": made.id,
        "run_id": run_id,
        "ordinal": 0,
        "attempt": 1,
        "event": "Created",
        "method": "POST",
        "url": f"http://127.0.0.1:{receiver.port}",
        "response_status": 400,
        "response_body": "no\\u0000 \\xff",
        "response_body_cleared_at": None,
        "requests_sent": 3,
        "error": "HTTP 400",
        "connector_slug": None,
        "request_slug": None,
    }
    assert headers["Idempotency-Key"] == "[redacted]"
    assert headers["webhook-id"] == delivery_id(f"{run_id.hex}-0")
    assert headers["X-Procession-Run"] == str(run_id)


async def test_each_attempt_of_each_action_has_its_number(conn, make, posting, receiver):
    receiver.will(answer(200), answer(500), answer(410))
    await (await make(webhook(receiver), webhook(receiver))).queue()

    async with posting() as heard:
        await heard.wait(Recorded, 2)
        await conn.execute("update run set due_at = now() where due_at is not null")
        await heard.wait(Recorded, 3)

    told = await rows(conn, "ordinal, attempt, response_status")
    assert [(row["ordinal"], row["attempt"], row["response_status"]) for row in told] == [
        (0, 1, 200),
        (1, 1, 500),
        (1, 2, 410),
    ]


async def test_a_call_without_an_answer_is_in_the_log(conn, make, posting, receiver):
    receiver.will(reset, reset, reset)
    await (await make(webhook(receiver))).queue()

    async with posting() as heard:
        await heard.wait(Recorded)

    (delivery,) = await rows(conn, "response_status, response_body, requests_sent, error")
    assert delivery == {
        "response_status": None,
        "response_body": None,
        "requests_sent": 3,
        "error": "ConnectionLost",
    }


async def test_a_refused_address_is_in_the_log_by_its_host(conn, make, posting):
    url = "http://ann:pw@169.254.169.254:80/latest?token=abc"
    await (await make(ActionDefinition(type="Webhook", parameters={"Url": url}))).queue()

    async with posting() as heard:
        await heard.wait(Recorded)

    (delivery,) = await rows(conn, "url, response_status, requests_sent, error")
    assert delivery == {
        "url": "http://169.254.169.254",
        "response_status": None,
        "requests_sent": 0,
        "error": "AddressRefused: [redacted]",
    }


async def test_what_is_refused_before_a_call_leaves_no_row(conn, make, posting):
    await (await make(ActionDefinition(type="Webhook", parameters={"Url": "/hook"}))).queue()

    async with posting() as heard:
        await heard.wait(Recorded)

    assert await rows(conn) == []


async def test_each_child_of_a_conditional_leaves_a_row(conn, make, posting, receiver):
    child = f'{{"type": "Webhook", "parameters": {{"Url": "{receiver.url()}"}}}}'
    parameters = {"Condition": "{{status}} == Draft", "ThenActions": f"[{child}, {child}]"}
    await (await make(ActionDefinition(type="Conditional", parameters=parameters))).queue()

    async with posting() as heard:
        await heard.wait(Recorded)

    told = await rows(conn, "delivery_id, ordinal, response_status")
    assert [(row["ordinal"], row["response_status"]) for row in told] == [(0, 200), (0, 200)]
    assert len({row["delivery_id"] for row in told}) == 2


async def test_what_was_released_is_in_the_log_and_sent_again_to_the_byte(
    conn, make, posting, receiver
):
    receiver.will(hang)
    await (await make(webhook(receiver))).queue()
    async with posting(grace=timedelta(seconds=0.1)) as heard:
        first = await receiver.next()
    assert len(heard.of(Released)) == 1
    await conn.execute('update entry set data = \'{"title": "Two"}\', updated_at = now()')

    async with posting() as heard:
        await heard.wait(Recorded)

    assert (await receiver.next()).body == first.body
    told = await rows(conn, "attempt, response_status, requests_sent, error")
    assert [tuple(row.values()) for row in told] == [
        (1, None, 1, "The attempt was cut off before an answer came."),
        (2, 200, 1, None),
    ]
    assert await row(conn, "select actions->0->'body' is null from run") == (True,)


async def test_a_row_is_written_by_the_statement_that_records(conn, make, recorder):
    await (await make("Safe")).queue(3)
    claims = await claim(conn, WANTED, 3)

    await asyncio.gather(
        *(recorder.record(each, Ended(Succeeded(), 1, None, (SENT,))) for each in claims)
    )

    written = """select count(*), count(distinct attempt.xmin::text)
                 from delivery join attempt using (run_id) where attempt.xmin = delivery.xmin"""
    assert await row(conn, written) == (3, 1)


async def test_a_row_that_cannot_be_written_changes_nothing(conn, make, recorder, caplog):
    await (await make("Safe")).queue(2)
    claims = await claim(conn, WANTED, 2)
    await conn.execute("alter table delivery add constraint never check (method <> 'POST')")
    try:
        steps = await asyncio.gather(
            *(
                recorder.record(each, Ended(Failed("503", retryable=True), 1, "body", (SENT,)))
                for each in claims
            )
        )
        await until(lambda: caplog.text.count("not in the log") == 2)
    finally:
        await conn.execute("alter table delivery drop constraint never")

    assert all(steps)
    state = "select count(*), min(actions->0->>'body'), min(actions->0->>'error') from run"
    assert await row(conn, state) == (2, "body", "503")
    assert await rows(conn) == []
    assert await jobs_that_differ(conn) == []


async def test_a_log_that_somebody_holds_up_costs_no_outcome(conn, pool, make, recorder):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    async with pool.connection() as other, other.transaction():
        await other.execute("lock table delivery in access exclusive mode")
        writing = asyncio.create_task(recorder.record(taken, Ended(Succeeded(), 1, None, (SENT,))))
        await until_blocked(conn)
        await conn.execute(
            """select pg_cancel_backend(pid) from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'"""
        )
        assert await writing
        assert await row(conn, "select status from run") == ("Succeeded",)

    assert len(await logged(conn, 1)) == 1


async def test_a_log_that_is_held_as_a_whole_holds_up_no_outcome_for_long(
    conn, pool, make, recorder, monkeypatch
):
    monkeypatch.setattr(pending, "PATIENCE", timedelta(milliseconds=100))
    await (await make("Safe")).queue(3)
    first, beside, later = await claim(conn, WANTED, 3)
    ended = Ended(Succeeded(), 1, None, (SENT,))
    async with pool.connection() as other, other.transaction():
        await other.execute("lock table delivery in share mode")  # as who makes an index does
        async with asyncio.timeout(5):
            both = recorder.record(first, ended), recorder.record(beside, Ended(Succeeded(), 1))
            assert all(await asyncio.gather(*both))
            monkeypatch.setattr(pending, "PATIENCE", timedelta(seconds=30))
            assert await recorder.record(later, ended)  # and waits for it no more
        assert await row(conn, "select count(*) from run where status = 'Succeeded'") == (3,)

    assert len(await logged(conn, 2)) == 2
    assert await jobs_that_differ(conn) == []


async def test_a_row_whose_write_was_in_doubt_is_there_once(conn, pool, make, held):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    cut = Cut(pool)
    async with writing(Recorder(cut, held)) as recorder, asyncio.timeout(10):
        step = await recorder.record(taken, Ended(Succeeded(), 1, None, (SENT,)))
        await cut.apart.wait()

    assert step is not None
    assert len(await rows(conn)) == 1


class Cut:
    """A pool whose first statement is carried out, and its answer lost."""

    def __init__(self, pool):
        self._pool, self._cut = pool, False
        self.apart = asyncio.Event()

    @contextlib.asynccontextmanager
    async def connection(self):
        async with self._pool.connection() as self._conn:
            yield self

    async def execute(self, statement, values):
        done = await self._conn.execute(statement, values)
        if not self._cut:
            self._cut = True
            raise OperationalError
        if statement == DELIVER:
            self.apart.set()
        return done


async def test_what_came_after_its_lease_is_in_the_log(conn, make, recorder):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute("update run set lease_until = now() - interval '1 s'")

    assert await recorder.record(taken, Ended(Succeeded(), 1, None, (SENT,))) is None

    (delivery,) = await logged(conn, 1)
    assert (delivery["run_id"], delivery["attempt"]) == (taken.id, 1)


async def test_what_was_cut_off_with_its_lease_is_in_the_log(conn, make, posting, receiver):
    receiver.will(hang)
    await (await make(webhook(receiver))).queue()

    async with posting() as heard:
        await receiver.next()
        await conn.execute("update run set lease_until = now() - interval '1 s'")
        await heard.wait(Rescued, 1, seconds=20)
        await heard.wait(Claimed, 2, seconds=20)
        await heard.wait(Recorded, 1, seconds=20)
        told = await logged(conn, 2)

    assert [(row["attempt"], row["response_status"]) for row in told] == [(1, None), (2, 200)]
