"""One trace, from the request that causes an event to the receiver that is told of it."""

import asyncio
from time import monotonic

import pytest
from fix_api import add_workflow, declare
from fix_queue import Heard, Worked
from fix_receiver import LOOPBACK, answer, close
from psycopg.types.json import Jsonb

from procession.actions.webhook import Webhook
from procession.app import collector, tracing
from procession.outbound.http import Client, Rules
from procession.outbound.retry import Tries
from procession.queue.types import Recorded

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLERS = "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{CALLERS}-01"


def id_of(span):
    return f"{span.context.span_id:016x}"


def parent_of(span):
    return span.parent and f"{span.parent.span_id:016x}"


@pytest.fixture
async def worker(database, pool):
    """A worker that posts to this machine, and whose claims are traced."""

    class Both(Heard):
        def __call__(self, happened):
            tracing.heard(happened)
            super().__call__(happened)

    async with Client(Rules(LOOPBACK, Tries(retries=0))) as client:
        made = Worked(database, pool, client)
        made.more["Webhook"] = Webhook(allow_insecure_signed_urls=True)
        made.heard = Both()
        yield made


ACTIONS = """
    update workflow_version set definition = jsonb_set(definition::jsonb, '{actions}', %s)
"""


async def posts(admin, conn, url):
    """A workflow that posts each created article there."""
    await declare(admin)
    await add_workflow(conn, "Created")
    await conn.execute(ACTIONS, (Jsonb([{"type": "Webhook", "parameters": {"Url": url}}]),))


async def save(admin, **headers):
    body = {"data": {"Title": "hunter2"}}
    answered = await admin.put("/api/entries/Article/a-17?x=hunter2", json=body, headers=headers)
    assert answered.status_code == 201
    return answered


async def test_request_claim_attempt_and_call_are_one_trace_that_goes_on_at_the_receiver(
    admin, conn, receiver, worker, traced
):
    await posts(admin, conn, receiver.url("/hooks/hunter2?token=hunter2"))
    await save(admin, traceparent=GIVEN)
    async with worker.working():
        await worker.heard.wait(Recorded)

    request = traced.one("PUT /api/entries/{contentType}/{id}")
    claim, attempt, call = (traced.one(name) for name in ("claim", "attempt", "POST"))
    parents = {request: CALLERS, claim: id_of(request), attempt: id_of(request)}
    parents[call] = id_of(attempt)
    assert {id_of(one): parent_of(one) for one in parents} == {
        id_of(one): parent for one, parent in parents.items()
    }
    assert {f"{one.context.trace_id:032x}" for one in parents} == {TRACE}
    told = await receiver.next()
    assert told.headers["traceparent"] == f"00-{TRACE}-{id_of(call)}-01"
    assert "hunter2" not in traced.text


async def test_what_nobody_began_begins_at_the_request(admin, conn, receiver, worker, traced):
    await posts(admin, conn, receiver.url())
    await save(admin)
    async with worker.working():
        await worker.heard.wait(Recorded)

    request = traced.one("PUT /api/entries/{contentType}/{id}")
    trace = f"{request.context.trace_id:032x}"
    assert request.parent is None
    assert {one.context.trace_id for one in traced.all if one.name in {"attempt", "POST"}} == {
        request.context.trace_id
    }
    assert (await receiver.next()).headers["traceparent"].split("-")[1] == trace


async def test_without_traces_the_receiver_gets_what_the_request_brought(
    admin, conn, receiver, worker
):
    await posts(admin, conn, receiver.url())
    await save(admin, traceparent=GIVEN)
    async with worker.working():
        await worker.heard.wait(Recorded)

    assert (await receiver.next()).headers["traceparent"] == GIVEN


async def test_spans_say_what_was_done_and_how_it_ended(admin, conn, receiver, worker, traced):
    await posts(admin, conn, receiver.url())
    receiver.will(answer(410))
    (run_id,) = (await save(admin)).json()["runIds"]
    async with worker.working():
        await worker.heard.wait(Recorded)

    about = {
        "procession.tenant": "default",
        "procession.run": run_id,
        "procession.action": 0,
        "procession.action_type": "Webhook",
    }
    assert dict(traced.one("claim").attributes) == about
    attempt, call = traced.one("attempt"), traced.one("POST")
    ended = {"procession.attempt": 1, "procession.outcome": "Failed"}
    assert dict(attempt.attributes) == about | ended
    assert dict(call.attributes) == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
        "http.response.status_code": 410,
        "http.request.resend_count": 0,
    }
    assert call.start_time >= attempt.start_time
    assert traced.one("claim").end_time <= attempt.start_time


async def test_of_a_fault_a_span_has_its_kind(admin, conn, receiver, worker, traced):
    await posts(admin, conn, receiver.url("/hunter2"))
    receiver.will(close)
    await save(admin)
    async with worker.working():
        await worker.heard.wait(Recorded)

    call = traced.one("POST")
    assert (call.status.status_code.name, call.attributes["error.type"]) == (
        "ERROR",
        "ConnectionLost",
    )
    assert call.events == ()
    assert "hunter2" not in traced.text


async def test_a_request_that_is_refused_has_a_span_too(client, admin, traced):
    await client.get("/api/workflow-runs?secret=hunter2")
    await admin.get("/api/workflow-runs/hunter2")
    await client.request("BREW", "/hunter2")

    found = [(one.name, one.attributes["http.response.status_code"]) for one in traced.all]
    assert found == [("GET", 401), ("GET /api/workflow-runs/{id}", 400), ("HTTP", 404)]
    assert "hunter2" not in traced.text


@pytest.mark.parametrize("path", ["/metrics", "/health/live", "/health/ready"])
async def test_what_machines_ask_for_all_the_time_has_no_span(client, traced, path):
    answered = await client.get(path, headers={"traceparent": GIVEN})

    assert answered.status_code in {200, 401}
    assert traced.all == ()


async def test_a_collector_that_takes_nothing_is_told_of_seldom(
    receiver, caplog, monkeypatch, traced
):
    exporter, asked = collector.Exporter(endpoint=receiver.url()), 0.0
    monkeypatch.setattr(collector, "monotonic", lambda: monotonic() + asked)
    collector.hush()

    async def send(status):
        receiver.will(answer(status))
        await asyncio.to_thread(exporter.export, traced.all)

    for _ in range(3):
        await send(400)
    assert len(caplog.messages) == 1
    asked += 301
    await send(400)
    assert len(caplog.messages) == 2
    await send(200)
    await send(400)

    assert (
        caplog.messages == ["The collector does not take traces: they are lost until it does"] * 3
    )
