"""The client of users, against a real server."""

import asyncio
import functools
import re
import threading
from datetime import UTC, datetime

import pytest
from fix_api import CONTROL, add_tenant
from fix_pages import Page
from fix_remote import FLOW
from fix_runs import EPOCH, add_run, add_workflow

from procession.client import Client, ClientError, Outcome, RefusedError, UnreachableError
from procession.client.workflows import Workflows
from procession.engine.run import Action, Status
from procession.queue import bulk_turn

FAILED = Action(status=Status.FAILED, attempts=1, failures=1, retryable=False)
DEEP = functools.reduce(lambda inside, _: [inside], range(5000), [])
OURS = b'{"type": "urn:procession:problem:run-finished", "title": "T", "code": "run-finished"'


async def test_an_entry_is_saved_moved_read_and_taken_away(remote):
    def told(client):
        entries = client.entries
        saved = entries.save("Article", "a-1", {"Title": "One"}, only_new=True)
        again = entries.save("Article", "a-1", {"Title": "Two"}, version=saved.version)
        moved = entries.move("Article", "a-1", "Submit")
        read = entries.get("Article", "a-1")
        every = [one.id for one in entries.all("Article", status="Review")]
        gone = entries.delete("Article", "a-1", version=moved.version)
        return saved, again, moved, read, every, gone

    saved, again, moved, read, every, gone = await remote.do(told)

    assert (saved.events, again.events, moved.events) == (
        ["Created"],
        ["Updated"],
        ["transition:Submit"],
    )
    assert (read.status, read.data, read.version) == ("Review", {"Title": "Two"}, 3)
    assert read.created_by.kind == "ApiKey"
    assert every == ["a-1"]
    assert gone.events == ["Deleted"]


async def test_a_workflow_is_made_started_switched_and_deleted(remote):
    def told(client):
        flows = client.workflows
        made = flows.create(FLOW, idempotency_key="k-1")
        same = flows.create(FLOW, idempotency_key="k-1")
        client.entries.save("Article", "a-1", {"Title": "One"})
        started = [flows.run(made.id, "a-1", idempotency_key="k") for _ in range(2)]
        off, on = flows.disable(made.id), flows.enable(made.id)
        every = [one.name for one in flows.all()]
        flows.delete(made.id)
        return made, same, started, off, on, every, flows.named("Announce")

    made, same, started, off, on, every, left = await remote.do(told)

    assert made.id == same.id
    assert [one.repeated for one in started] == [False, True]
    assert started[0].run_id == started[1].run_id
    assert (off.enabled, on.enabled, every, left) == (False, True, ["Announce"], None)


async def test_whatever_is_posted_may_be_repeated_under_its_key(remote, conn):
    flow = await add_workflow(conn)
    done = Action(status=Status.SUCCEEDED)
    failed, ended, half = [
        str(await add_run(conn, flow, *actions))
        for actions in ([FAILED] * 2, [FAILED] * 2, [done, FAILED])
    ]

    def told(client):
        client.entries.save("Article", "a-1", {"Title": "One"})
        runs, bulk = client.runs, client.runs.bulk
        asked = bulk.ask("abandon", status=["Failed"])
        runs.retry(ended, 0)
        posts = [
            lambda key: client.entries.move("Article", "a-1", "Submit", idempotency_key=key),
            lambda key: runs.retry(failed, 0, idempotency_key=key),
            lambda key: runs.cancel(failed, idempotency_key=key),
            lambda key: runs.abandon(half, idempotency_key=key),
            lambda key: runs.force_end(ended, idempotency_key=key),
            lambda key: bulk.ask("cancel", entry_id="a", idempotency_key=key).id,
            lambda key: bulk.stop(asked.id, idempotency_key=key),
        ]
        return [(post(f"key {at}"), post(f"key {at}")) for at, post in enumerate(posts)]

    answers = await remote.do(told)

    assert [one for one, again in answers if one != again] == []


async def test_an_apply_creates_then_changes_nothing_then_updates(remote):
    def told(client):
        flows = client.workflows
        outcomes = [flows.apply(FLOW).outcome, flows.apply(FLOW).outcome]
        flows.disable(flows.named("Announce").id)
        kept = flows.apply(FLOW)
        changed = flows.apply(FLOW | {"conditions": {"Language": "en"}, "nonsense": 1})
        return [*outcomes, kept.outcome, changed.outcome], kept.workflow, changed.workflow

    outcomes, kept, changed = await remote.do(told)

    assert outcomes == ["created", "unchanged", "unchanged", "updated"]
    assert not kept.enabled  # whoever switched it off meant it
    assert (changed.version, changed.enabled) == (2, False)
    assert [one.field for one in changed.warnings] == ["nonsense"]


async def test_a_name_of_several_is_not_guessed(remote):
    def told(client):
        twins = [client.workflows.create(FLOW).id for _ in range(2)]
        with pytest.raises(ClientError, match="2 workflows are named Announce"):
            client.workflows.apply(FLOW)
        return client.workflows.apply(FLOW | {"id": twins[1]}), twins

    applied, twins = await remote.do(told)

    assert (applied.outcome, applied.workflow.id) == (Outcome.UNCHANGED, twins[1])


class Together(Workflows):
    """Makes one once all of the others are about to."""

    def __init__(self, client, barrier):
        super().__init__(client.workflows._calls)  # noqa: SLF001 - the same calls
        self._barrier = barrier

    def create(self, body, idempotency_key=None):
        self._barrier.wait()
        return super().create(body, idempotency_key)


async def test_those_who_apply_at_once_make_one(remote):
    barrier = threading.Barrier(3, timeout=30)

    def applied(conditions):
        return remote.do(
            lambda client: Together(client, barrier).apply(FLOW | {"conditions": conditions})
        )

    alike = await asyncio.gather(*[applied({}) for _ in range(3)])
    left = await remote.do(lambda client: [one.id for one in client.workflows.all()])

    assert sorted(one.outcome for one in alike) == ["created", "unchanged", "unchanged"]
    assert {one.workflow.id for one in alike} == {*left}
    assert len(left) == 1


async def test_who_made_another_and_does_not_take_it_away_is_told_of(remote, monkeypatch):
    monkeypatch.setattr("procession.client.workflows.PAUSE", 0)

    class Beside(Workflows):
        def create(self, body, idempotency_key=None):
            made = super().create(body, idempotency_key)
            super().create(body)
            return made

    def told(client):
        with pytest.raises(ClientError, match="2 workflows are named Announce"):
            Beside(client.workflows._calls).apply(FLOW)  # noqa: SLF001 - the same calls
        return len(list(client.workflows.all()))

    assert await remote.do(told) == 2


async def test_a_run_is_found_shown_and_commanded(remote, conn):
    flow = await add_workflow(conn)
    one = str(await add_run(conn, flow, FAILED, Action(status=Status.SKIPPED, halted_by=0)))
    two = str(await add_run(conn, flow, Action(status=Status.SUCCEEDED, attempts=1), FAILED))

    def told(client):
        runs = client.runs
        page = runs.page(status="failed", workflow_id=str(flow))
        return page, runs.retry(one, 0), runs.cancel(one), runs.abandon(two), runs.get(two)

    page, retried, cancelled, abandoned, read = await remote.do(told)

    assert [run.id for run in page.items] == [one]
    assert page.status_counts["PartiallyFailed"] == 1
    assert (retried.status, cancelled.status) == ("Pending", "Cancelled")
    assert abandoned == read
    assert read.abandoned_at is not None
    with pytest.raises(RefusedError) as refused:
        await remote.do(lambda client: client.runs.force_end(two))
    assert (refused.value.status, refused.value.code) == (409, "run-finished")


async def test_changes_are_followed_to_the_last_and_on_from_there(remote, conn):
    flow = await add_workflow(conn)
    ids = {str(await add_run(conn, flow, updated_at=EPOCH)) for _ in range(7)}

    def told(client):
        pages = list(client.runs.changed(datetime(2020, 1, 1, tzinfo=UTC), page_size=2))
        return pages, list(client.runs.changed(pages[-1].cursor))

    pages, later = await remote.do(told)

    assert {run.id for page in pages for run in page.items} == ids
    assert [len(page.items) for page in pages] == [2, 2, 2, 1]
    assert [len(page.items) for page in later] == [0]


async def test_the_copy_of_the_page_on_the_client_is_kept_fresh(remote, conn):
    (_, code) = re.findall(r"```python\n(.*?)```", Page("client.md").text, re.DOTALL)
    made, copy = {}, {}
    exec(code, made)
    flow = await add_workflow(conn)
    ids = {str(await add_run(conn, flow, FAILED, FAILED, updated_at=EPOCH)) for _ in range(3)}

    since = await remote.do(lambda client: made["refresh"](client, copy, "2020-01-01T00:00:00Z"))
    first = copy.keys() == ids
    await remote.do(lambda client: client.runs.retry(min(ids), 0))
    await remote.do(lambda client: made["refresh"](client, copy, since))

    assert first
    assert [copy[one].status for one in sorted(ids)] == ["Running", "Failed", "Failed"]


async def test_a_verb_for_many_is_counted_asked_for_and_followed(remote, conn):
    flow = await add_workflow(conn)
    for _ in range(3):
        await add_run(conn, flow, FAILED, FAILED)

    asked = await remote.do(
        lambda client: (
            client.runs.bulk.count("retry", workflow_id=str(flow)),
            client.runs.bulk.ask("retry", workflow_id=str(flow), created_from=EPOCH),
            client.runs.bulk.ask("abandon", status=["Failed"]),
        )
    )
    await bulk_turn.turn(conn)
    ended = await remote.do(lambda client: list(client.runs.bulk.follow(asked[1].id))[-1])
    stopped = await remote.do(lambda client: client.runs.bulk.stop(asked[2].id))
    listed = await remote.do(lambda client: client.runs.bulk.page())

    assert asked[0] == asked[1].matched == 3
    assert (ended.status, ended.changed) == ("Done", 3)
    assert [one.id for one in listed.items] == [stopped.id, ended.id]
    assert stopped.status == "Stopped"


async def test_a_refusal_says_its_code_and_every_fault(remote):
    with pytest.raises(RefusedError) as refused:
        await remote.do(lambda client: client.workflows.create({"name": ""}))

    assert (refused.value.status, refused.value.code) == (400, "validation-failed")
    assert ("name", "must be 1 to 200 characters, not blank") in refused.value.faults
    assert "  name: must be 1 to 200 characters, not blank" in str(refused.value).splitlines()
    assert refused.value.trace_id


@pytest.mark.parametrize("key", ["prc_wrong", "not\nakey", "клю\u0447"])
async def test_a_key_that_is_none_is_refused(remote, key):
    def told():
        with remote.client(key=key) as client:
            client.runs.page()

    with pytest.raises(ClientError) as refused:
        await asyncio.to_thread(told)

    assert key not in str(refused.value)


async def test_an_id_that_is_a_path_leads_nowhere_else(remote):
    with pytest.raises(RefusedError) as refused:
        await remote.do(lambda client: client.runs.get("../keys?x=1#y"))

    assert refused.value.status in {400, 404}


def test_silence_is_told_apart_from_a_refusal():
    with (
        Client("http://127.0.0.1:9", "prc_x", timeout=2) as nobody,
        pytest.raises(UnreachableError, match="does not answer"),
    ):
        nobody.runs.page()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b'{"items": ' + b"[" * 100_000),
        (502, b"<html>"),
        (504, b'{"message": "Endpoint request timed out"}'),
        (502, b'{"errors": ["no upstream"]}'),
        (502, b'{"type": "about:blank", "title": "Bad Gateway", "code": "502"}'),
        (409, OURS + b', "errors": ["no upstream"]}'),
        (409, OURS + b', "detail": 1}'),
        (409, OURS + b', "more": ' + b"[" * 100_000),
    ],
    ids=range(9),
)
async def test_a_stranger_that_answers_is_told_as_one(stranger, status, body):
    """A proxy's own words do not say whether the call was heard."""
    with pytest.raises(UnreachableError, match="not as Procession does"):
        await stranger(status, body, lambda client: client.runs.cancel("x"))


async def test_a_page_in_the_place_of_nothing_is_no_answer(stranger):
    with pytest.raises(UnreachableError, match="not as Procession does"):
        await stranger(200, b"<html>", lambda client: client.workflows.delete("x"))


@pytest.fixture
def stranger():
    """Call somebody who gives this answer to everything."""

    async def called(status, body, call):
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close"
            writer.write(f"{head}\r\n\r\n".encode() + body)
            await writer.drain()
            writer.close()

        def told():
            with Client(f"http://127.0.0.1:{port}", "prc_x") as client:
                call(client)

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await asyncio.to_thread(told)

    return called


async def test_the_control_token_names_its_tenant(remote, conn):
    await add_tenant(conn, "globex")

    def told():
        with remote.client(key=CONTROL, tenant="globex") as client:
            return client.runs.page()

    assert (await asyncio.to_thread(told)).total_items == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.entries.save("A", "x", {"n": float("nan")}), "data.n holds"),
        (
            lambda c: c.entries.save("A", "x", {"l": [1, {"n": float("inf")}]}),
            r"data.l\[1\].n holds",
        ),
        (lambda c: c.entries.save("A", "x", {"t": "\ud800"}), "data.t holds"),
        (lambda c: c.entries.save("A", "x", {"\ud800": 1}), "data holds"),
        (lambda c: c.entries.save("A", "x", {"o": object()}), "cannot be sent"),
        (lambda c: c.entries.save("A", "x", {"o": DEEP}), "cannot be sent"),
        (lambda c: c.entries.get("A", "\ud800"), "no name"),
        (lambda c: c.entries.delete("A", ".."), r'"\.\.", where'),
        (lambda c: c.entries.save("A", ".", {}), r'"\.", where'),
        (lambda c: c.workflows.delete(""), '"", where'),
        (lambda c: c.runs.retry("..", 0), r'"\.\.", where'),
        (lambda c: c.runs.page(entry_id="\ud800"), "entryId holds"),
        (lambda c: c.workflows.run("w", "x", idempotency_key="é"), "Idempotency-Key must be"),
        (lambda c: c.workflows.create({}, idempotency_key="a\nb"), "Idempotency-Key must be"),
        (lambda c: c.workflows.create({}, idempotency_key="\ud800"), "Idempotency-Key must be"),
    ],
)
def test_what_cannot_be_said_is_named_and_not_sent(call, said):
    with Client("http://127.0.0.1:9", "k") as client, pytest.raises(ClientError, match=said) as one:
        call(client)

    assert not isinstance(one.value, UnreachableError)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "example.org", "", "ftp://h", "http://"])
def test_an_address_that_is_none_is_said_to_be(address):
    with pytest.raises(ClientError, match="The address must be one such as") as refused:
        Client(address, "k")

    assert not isinstance(refused.value, UnreachableError)


@pytest.mark.parametrize("key", ["", " "])
def test_a_key_that_is_empty_is_said_to_be(key):
    with pytest.raises(ClientError, match="There is no key"):
        Client("http://127.0.0.1:9", key)


def test_a_filter_that_there_is_not_is_refused_and_not_left_out():
    with Client("http://127.0.0.1:9", "k") as client:
        with pytest.raises(TypeError, match="no filter stats, only status, workflow_id"):
            client.runs.page(stats="Failed")
        with pytest.raises(TypeError, match="no filter stats"):
            next(client.runs.changed("2026-11-30T08:00:00Z", stats="Failed"))


@pytest.mark.parametrize("key", ["a\nb", "é", "\ud800", "a\0"])
def test_a_key_that_no_header_can_hold_is_said_to_be_malformed(key):
    with pytest.raises(ClientError, match="The key is malformed") as refused:
        Client("http://127.0.0.1:9", key)

    assert key not in str(refused.value)
