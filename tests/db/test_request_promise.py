"""Whether a stored request may be sent again is known to whoever rescues it, too."""

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from fix_api import RING
from fix_queue import Heard, age, running
from fix_receiver import answer, hang
from fix_requests import ONCE

from procession.actions.load import built_in, load
from procession.app.runner import Options, Runner
from procession.engine.workflow import ActionDefinition
from procession.queue.leases import connection
from procession.queue.rescue import rescue
from procession.queue.types import Claimed, Recorded


@pytest.fixture
def working(database, pool, sender):
    """A worker that sends stored requests, for as long as the block lasts."""

    @contextlib.asynccontextmanager
    async def begun(grace=0):
        heard = Heard()
        options = Options(database=database, grace=timedelta(seconds=grace), ring=RING)
        registry = load(built_in(requests=sender.stored), [])
        client = sender.make_client(tries=ONCE)
        runner = Runner(pool, options, registry, client, tell=heard)
        async with running(runner):
            yield heard

    return begun


def sends(nested):
    request = {"type": "Request", "parameters": {"Request": "book"}}
    if not nested:
        return ActionDefinition(**request)
    condition = "{{status}} == Draft"
    branch = {"Condition": condition, "ThenActions": json.dumps([request]), "ElseActions": "[]"}
    return ActionDefinition(type="Conditional", parameters=branch)


async def promised(conn):
    cursor = await conn.execute("select actions #>> '{0,repeatable}' = 'true' from run")
    return (await cursor.fetchone())[0]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("method", "header", "status", "outcome"),
    [
        ("PUT", "off", "Pending", "Released"),
        ("POST", "Idempotency-Key", "Pending", "Released"),
        ("POST", "off", "Unknown", "Unknown"),
    ],
)
async def test_a_worker_that_stops_gives_back_what_may_be_sent_again(  # noqa: PLR0913, PLR0917
    conn, make, sender, working, receiver, method, header, status, outcome, nested
):
    receiver.will(hang)
    await sender.connect(receiver.url(), settings={"idempotencyHeader": header})
    await sender.keep(method=method)
    await (await make(sends(nested))).queue()

    async with working() as heard:
        await heard.wait(Claimed)
        await receiver.next()
        kept = await promised(conn)

    cursor = await conn.execute(
        "select run.actions #>> '{0,status}', attempt.outcome from run join attempt on run_id = id"
    )
    assert bool(kept) is (outcome == "Released")
    assert [(row[0] or "Pending", row[1]) for row in await cursor.fetchall()] == [(status, outcome)]


@pytest.mark.parametrize(("header", "outcome"), [("X-Once", "Lost"), ("off", "Unknown")])
async def test_whoever_rescues_it_knows_it_too(  # noqa: PLR0913, PLR0917
    conn, database, make, sender, working, receiver, header, outcome
):
    receiver.will(hang)
    await sender.connect(receiver.url(), settings={"idempotencyHeader": header})
    await sender.keep()
    await (await make(sends(nested=False))).queue()

    async with working() as heard:
        await receiver.next()
        await age(conn, lease_until=60)
        with connection(database) as keeper:
            await asyncio.to_thread(rescue, keeper)
        cursor = await conn.execute("select outcome from attempt")
        found = await cursor.fetchall()
        assert not heard.of(Recorded)

    assert found == [(outcome,)]


async def test_what_is_sent_is_what_the_promise_was_made_of(  # noqa: PLR0913, PLR0917
    conn, database, make, sender, working, receiver
):
    """A Conditional is promised as a whole; its connector is switched to no key before its turn."""
    gate = asyncio.Event()

    async def slow(writer):
        await gate.wait()
        await answer()(writer)

    receiver.will(slow, hang, answer(), answer())
    await sender.connect(receiver.url(), settings={"idempotencyHeader": "X-Once"})
    await sender.keep()
    webhook = {"type": "Webhook", "parameters": {"Url": receiver.url("/hook")}}
    request = {"type": "Request", "parameters": {"Request": "book"}}
    branch = {"Condition": "{{status}} == Draft", "ThenActions": json.dumps([webhook, request])}
    await (await make(ActionDefinition(type="Conditional", parameters=branch))).queue()

    async with working() as heard:
        await receiver.next()
        await sender.connect(receiver.url(), settings={"idempotencyHeader": "off"})
        gate.set()
        first = await receiver.next()
        await age(conn, lease_until=60)
        with connection(database) as keeper:
            await asyncio.to_thread(rescue, keeper)
        await receiver.next()
        again = await receiver.next()
        await heard.wait(Recorded)

    assert [first.path, again.path] == ["/books", "/books"]
    assert first.headers["x-once"].endswith("-t1")
    assert "x-once" not in again.headers  # a new attempt: as it is now


async def test_an_attempt_reads_what_it_sends_once(make, sender, working, receiver):
    async def nowhere(_tenant, _slug):
        raise AssertionError

    receiver.will(answer())
    await sender.connect(receiver.url())
    await sender.keep()
    sender.stored = replace(sender.stored, find=nowhere)
    await (await make(sends(nested=True))).queue()

    async with working() as heard:
        (recorded,) = await heard.wait(Recorded)

    assert recorded.step.run.actions[0].status == "Succeeded"


UNREAD = "The stored request cannot be read by this worker."


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "odd",
    [
        """update request_definition set definition = '{"x": 1}'""",
        """update connector set definition = '{"x": 1}'""",
        "update connector set secrets = '[1]'",
    ],
)
async def test_what_a_worker_cannot_read_is_a_failure_and_never_in_doubt(  # noqa: PLR0913, PLR0917
    conn, make, sender, working, receiver, odd, nested
):
    await sender.connect(receiver.url())
    await sender.keep(method="POST")
    await conn.execute(odd)
    await (await make(sends(nested))).queue()

    async with working() as heard:
        await heard.wait(Recorded)

    cursor = await conn.execute(
        "select attempt.outcome, attempt.error, run.status from run join attempt on run_id = id"
    )
    told = "Actions of the branch failed: Request." if nested else UNREAD
    assert await cursor.fetchall() == [("Retried", told, "Pending")]
    assert receiver.received == []


async def test_a_branch_that_is_not_picked_may_be_anything(make, sender, working, receiver):
    await sender.connect(receiver.url())
    await sender.keep()
    action = sends(nested=True)
    branches = {
        "Condition": "{{status}} == Gone",
        "ThenActions": "[",
        "ElseActions": action.parameters["ThenActions"],
    }
    await (await make(ActionDefinition(type="Conditional", parameters=branches))).queue()

    async with working() as heard:
        await heard.wait(Recorded)
        assert len(receiver.received) == 1


@pytest.fixture
async def refusing(conn):
    """Postgres refuses each promise."""
    await conn.execute(
        """create function refuse() returns trigger language plpgsql as
           $$ begin raise exception using errcode = 'check_violation'; end $$;
           create trigger refuse before update on run for each row
           when (new.version = old.version and new.actions @> '[{"repeatable": true}]')
           execute function refuse()"""
    )
    yield
    await conn.execute("drop trigger refuse on run; drop function refuse()")


@pytest.mark.usefixtures("refusing")
async def test_an_attempt_whose_promise_is_refused_is_recorded_and_tried_again(conn, make, worked):
    worked.plain.repeatable = lambda _: True
    ids = await (await make("Plain")).queue(2)

    async with worked.working():
        recorded = await worked.heard.wait(Recorded, 2)

    assert {one.claim.id for one in recorded} == set(ids)
    told = "select status, actions #>> '{0,error}', actions #> '{0,failures}' from run"
    cursor = await conn.execute(told)
    assert await cursor.fetchall() == [("Pending", "CheckViolation", 1)] * 2
    assert worked.plain.seen == []
