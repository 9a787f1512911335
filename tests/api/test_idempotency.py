"""Repeats of a POST under an Idempotency-Key: once done, once answered, whoever asks how often."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fix_api import RING, declare
from fix_races import opened
from psycopg import OperationalError

from procession.api import keys
from procession.api.app import create_app
from procession.api.services import Services
from procession.engine.access import Actor, ActorKind
from procession.engine.errors import ConflictError, DatabaseUnavailableError
from procession.queue import idempotency as kept
from procession.queue import keys as stored_keys
from procession.queue import later, sweep
from procession.queue.pool import make_pool
from procession.queue.sealing import Ring
from procession.tasks import retention

KEY = {"name": "Shop", "role": "Editor"}


def keyed(key="k-1", **more):
    return {"Idempotency-Key": key, **more}


def refusal(answer):
    return answer.status_code, answer.json()["code"]


async def count(conn, table="api_key"):
    (row,) = await (await conn.execute(f"select count(*) from {table}")).fetchall()
    return row[0]


async def test_a_repeat_is_answered_what_the_first_was_and_does_nothing(admin, conn):
    first = await admin.post("/api/keys", json=KEY, headers=keyed())
    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    for name in ("content-type", "content-length", "cache-control"):
        assert again.headers[name] == first.headers[name]
        assert len(again.headers.get_list(name)) == 1
    assert await count(conn) == 2  # the caller's own, and one
    assert await count(conn, "audit") == 1


async def test_a_created_thing_keeps_its_location_and_version(admin):
    await declare(admin)
    body = {
        "name": "x",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": [{"type": "Webhook", "parameters": {"Url": "https://example.org"}}],
    }

    first = await admin.post("/api/workflows", json=body, headers=keyed())
    again = await admin.post("/api/workflows", json=body, headers=keyed())

    assert first.status_code == 201
    assert again.headers["location"] == first.headers["location"]
    assert (await admin.get("/api/workflows")).json()["totalItems"] == 1


async def test_what_was_done_with_too_long_an_answer_is_not_done_again(admin, conn):
    await declare(admin)
    email = {"To": "a@example.org", "Subject": "s", "Body": "x" * 70_000}
    body = {
        "name": "x",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": [{"type": "Email", "parameters": email}],
    }
    entry = {"contentType": "Article", "data": {"Title": "One"}}
    trial = {"workflow": body, "entry": entry}

    first = await admin.post("/api/workflows", json=body, headers=keyed())
    again = await admin.post("/api/workflows", json=body, headers=keyed())
    other = await admin.post("/api/workflows", json=body | {"name": "y"}, headers=keyed())
    tried = [
        await admin.post("/api/workflows/dry-run", json=trial, headers=keyed("k-2"))
        for _ in range(2)
    ]

    assert first.status_code == 201
    assert refusal(again) == (409, "idempotency-answer-too-long")
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["answered"] == 201
    assert again.json()["location"] == first.headers["location"]
    assert refusal(other) == (422, "idempotency-key-reused")
    assert (await admin.get("/api/workflows")).json()["totalItems"] == 1
    assert [one.status_code for one in tried] == [200, 200]  # which does nothing to begin with
    assert await count(conn, "idempotency") == 1


async def test_a_refusal_of_the_route_is_an_answer_too(admin, conn):
    bad = await admin.post("/api/keys", json={"name": "x", "role": "Later"}, headers=keyed())
    await admin.put("/api/roles/Later", json={"capabilities": []})

    again = await admin.post("/api/keys", json={"name": "x", "role": "Later"}, headers=keyed())

    assert refusal(bad) == (400, "validation-failed")
    assert again.content == bad.content
    assert again.headers["content-type"] == "application/problem+json"
    assert await count(conn) == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"content": b"{"}, "malformed-json"),
        ({"content": b"x" * 2_000_000}, "body-too-large"),
        ({"content": b"{}", "headers": keyed() | {"Content-Type": "text/plain"}},
         "unsupported-media-type"),
        ({"json": KEY, "headers": keyed() | {"X-Tenant": "other"}}, "tenant-mismatch"),
    ],
)  # fmt: skip
async def test_what_never_came_to_the_route_leaves_the_key_free(admin, conn, request_, code):
    sent = {"headers": keyed() | {"Content-Type": "application/json"}} | request_

    assert (await admin.post("/api/keys", **sent)).json()["code"] == code
    assert await count(conn, "idempotency") == 0
    assert (await admin.post("/api/keys", json=KEY, headers=keyed())).status_code == 201


async def test_another_body_under_the_key_is_refused(admin, conn):
    await admin.post("/api/keys", json=KEY, headers=keyed())

    for body in (KEY | {"name": "Other"}, KEY | {"more": 1}):
        other = await admin.post("/api/keys", json=body, headers=keyed())
        assert refusal(other) == (422, "idempotency-key-reused")
    assert await count(conn) == 2


async def test_a_key_is_of_its_caller_its_tenant_and_its_route(call, control):
    one, two, elsewhere = await call(), await call(), await call("Admin", "acme")
    await declare(one)
    for name in ("a-1", "a-2"):
        await one.put(f"/api/entries/Article/{name}", json={"data": {}})
    persons = [{"X-Tenant": "default", "X-Actor-Id": one} for one in ("u-1", "u-2")]

    made = [
        await client.post("/api/keys", json=KEY, headers=keyed())
        for client in (one, two, elsewhere)
    ]
    made += [await control.post("/api/keys", json=KEY, headers=keyed(**who)) for who in persons]
    moved = [
        await one.post(f"/api/entries/Article/{name}/transitions/Submit", headers=keyed())
        for name in ("a-1", "a-2", "a-1")
    ]

    assert [one.status_code for one in made] == [201] * 5
    assert len({one.json()["id"] for one in made}) == 5
    assert all("idempotent-replayed" not in one.headers for one in made)
    assert [one.status_code for one in moved] == [200] * 3
    assert [one.json()["entry"]["id"] for one in moved] == ["a-1", "a-2", "a-1"]
    assert ["idempotent-replayed" in one.headers for one in moved] == [False, False, True]


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb", "ü", "\x7f"])
async def test_a_key_is_printable_ascii(admin, conn, key):
    answer = await admin.post("/api/keys", json=KEY, headers={b"Idempotency-Key": key.encode()})

    assert refusal(answer) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == ["Idempotency-Key"]
    assert await count(conn) == 1
    for good in ("x" * 200, "~ !"):
        assert (await admin.post("/api/keys", json=KEY, headers=keyed(good))).status_code == 201


async def test_two_keys_at_once_are_none(admin):
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]

    assert (await admin.post("/api/keys", json=KEY, headers=headers)).status_code == 400


async def test_many_at_once_do_it_once(admin, conn):
    answers = await asyncio.gather(
        *(admin.post("/api/keys", json=KEY, headers=keyed()) for _ in range(24))
    )

    done = [one for one in answers if one.status_code == 201]
    assert {refusal(one) for one in answers if one.status_code != 201} <= {
        (409, "idempotency-key-in-progress")
    }
    assert sum("idempotent-replayed" not in one.headers for one in done) == 1
    assert len({one.content for one in done}) == 1
    assert await count(conn) == 2


@pytest.fixture
def slowly(monkeypatch):
    """Make the creation of keys wait until it is let go; what it waits by."""
    begun, go = asyncio.Queue(), asyncio.Event()
    create = stored_keys.create_key

    async def waiting(*args):
        begun.put_nowait(None)
        await go.wait()
        return await create(*args)

    monkeypatch.setattr(keys.keys, "create_key", waiting)
    return begun, go


async def test_while_the_first_goes_on_a_repeat_is_told_so(admin, slowly):
    begun, go = slowly
    first = asyncio.create_task(admin.post("/api/keys", json=KEY, headers=keyed()))
    await begun.get()

    again = await admin.post("/api/keys", json=KEY, headers=keyed())
    other = await admin.post("/api/keys", json=KEY | {"name": "O"}, headers=keyed())
    go.set()

    assert refusal(again) == (409, "idempotency-key-in-progress")
    assert refusal(other) == (422, "idempotency-key-reused")
    assert (await first).status_code == 201
    assert (await admin.post("/api/keys", json=KEY, headers=keyed())).content == (
        await first
    ).content


async def test_a_key_that_a_dead_process_holds_is_free_after_ten_minutes(admin, conn, slowly):
    begun, go = slowly
    dead = asyncio.create_task(admin.post("/api/keys", json=KEY, headers=keyed()))
    await begun.get()
    dead.cancel()
    await asyncio.wait({dead})
    go.set()

    early = await admin.post("/api/keys", json=KEY, headers=keyed())
    await conn.execute("update idempotency set since = since - interval '10 minutes'")
    late = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(early) == (409, "idempotency-key-in-progress")
    assert late.status_code == 201
    assert "idempotent-replayed" not in late.headers


async def test_who_comes_back_from_the_dead_does_nothing(admin, conn, slowly):
    begun, go = slowly
    first = asyncio.create_task(admin.post("/api/keys", json=KEY, headers=keyed()))
    await begun.get()
    await conn.execute("update idempotency set since = since - interval '11 minutes'")
    second = asyncio.create_task(
        admin.post("/api/keys", json=KEY | {"name": "Second"}, headers=keyed())
    )
    await begun.get()
    go.set()

    assert refusal(await first) == (409, "idempotency-key-in-progress")
    assert (await second).status_code == 201
    again = await admin.post("/api/keys", json=KEY | {"name": "Second"}, headers=keyed())
    assert again.content == (await second).content
    assert await count(conn) == 2


async def test_only_who_holds_the_key_may_keep_or_free_it(conn):
    actor = Actor(kind=ActorKind.API_KEY, id="a", name="a")
    dead, alive = [kept.asked("default", actor, "POST /x", "k", b"{}") for _ in range(2)]
    first, second = kept.Answer(200, [], "first"), kept.Answer(201, [], "second")
    assert await kept.hold(conn, dead, RING) is None
    await conn.execute("update idempotency set since = since - interval '10 minutes'")
    assert await kept.hold(conn, alive, RING) is None

    await kept.keep(conn, dead, RING, first)
    await kept.free(conn, dead)
    with pytest.raises(ConflictError):
        await kept.hold(conn, dead, RING)
    await kept.keep(conn, alive, RING, second)
    await kept.keep(conn, dead, RING, first)
    await kept.free(conn, alive)

    assert await kept.hold(conn, dead, RING) == second


async def test_an_answer_is_kept_for_a_day(admin, conn):
    first = await admin.post("/api/keys", json=KEY, headers=keyed())
    await conn.execute("update idempotency set since = since - interval '23 hours 59 minutes'")
    again = await admin.post("/api/keys", json=KEY, headers=keyed())
    await conn.execute("update idempotency set since = since - interval '1 minute'")
    anew = await admin.post("/api/keys", json=KEY | {"name": "Other"}, headers=keyed())

    assert again.content == first.content
    assert anew.status_code == 201
    assert await count(conn, "idempotency") == 1


async def test_a_failure_of_ours_is_not_kept(admin, conn, monkeypatch):
    create = stored_keys.create_key
    faults = [DatabaseUnavailableError(), ZeroDivisionError()]

    async def failing(*args):
        if faults:
            raise faults.pop(0)
        return await create(*args)

    monkeypatch.setattr(keys.keys, "create_key", failing)
    admin._transport.raise_app_exceptions = False  # noqa: SLF001 - the server would answer 500

    statuses = [
        (await admin.post("/api/keys", json=KEY, headers=keyed())).status_code for _ in range(3)
    ]

    assert statuses == [503, 500, 201]
    assert await count(conn) == 2


async def test_who_was_refused_for_a_capability_is_heard_again_once_it_has_it(call, conn):
    operator = await call("Operator")
    flow = {"filter": {"entryId": "a-1"}}
    admin = await call()
    asked = (await admin.post("/api/workflow-runs/bulk/cancel", json=flow)).json()
    stop = f"/api/workflow-runs/bulk/{asked['id']}/stop"

    refused = await operator.post(stop, headers=keyed())
    await conn.execute("update api_key set role = 'Admin' where name = 'key of Operator'")
    heard = await operator.post(stop, headers=keyed())

    assert refusal(refused) == (403, "forbidden")
    assert heard.status_code == 200


@asynccontextmanager
async def going_down(conn, *doings, by="57P01"):
    """A database that goes down whenever it is to do one of these, for as long as the block."""
    await conn.execute(
        f"""create function go_down() returns trigger language plpgsql as
            $$ begin raise exception 'no' using errcode = '{by}'; end $$"""
    )
    for number, doing in enumerate(doings):
        await conn.execute(
            f"create trigger gone_{number} before {doing} for each row execute function go_down()"
        )
    try:
        yield
    finally:
        await conn.execute("drop function go_down cascade")


@pytest.mark.parametrize("by", ["25P03", "25P04"])
async def test_a_transaction_that_stood_still_for_too_long_is_to_be_tried_again(admin, conn, by):
    async with going_down(conn, "insert on api_key", by=by):
        first = await admin.post("/api/keys", json=KEY, headers=keyed())

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(first) == (503, "database-unavailable")
    assert first.headers["retry-after"] == "5"
    assert again.status_code == 201


async def test_a_key_is_free_once_the_database_is_back(admin, app, conn, monkeypatch):
    monkeypatch.setattr(later, "PAUSE", 0)
    async with going_down(conn, "insert on api_key", "delete on idempotency"):
        first = await admin.post("/api/keys", json=KEY, headers=keyed())
        early = await admin.post("/api/keys", json=KEY, headers=keyed())
    await app.state.services.later.task

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(first) == (503, "database-unavailable")
    assert refusal(early) == (409, "idempotency-key-in-progress")
    assert again.status_code == 201
    assert "idempotent-replayed" not in again.headers


async def test_a_refusal_is_kept_once_the_database_is_back(admin, app, conn, monkeypatch):
    monkeypatch.setattr(later, "PAUSE", 0)
    body = {"name": "x", "role": "Later"}
    async with going_down(conn, "update on idempotency"):
        first = await admin.post("/api/keys", json=body, headers=keyed())
    await app.state.services.later.task
    await admin.put("/api/roles/Later", json={"capabilities": []})

    again = await admin.post("/api/keys", json=body, headers=keyed())

    assert refusal(first) == (400, "validation-failed")
    assert again.content == first.content


async def test_what_is_done_and_its_answer_are_kept_together_or_not_at_all(admin, conn):
    async with going_down(conn, "update on idempotency"):
        first = await admin.post("/api/keys", json=KEY, headers=keyed())
        keys_then = await count(conn)

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(first) == (503, "database-unavailable")
    assert keys_then == 1
    assert again.status_code == 201
    assert "idempotent-replayed" not in again.headers


@pytest.fixture
async def cut(between, app):
    """What may lose a commit of this application."""
    passing, database = between
    async with make_pool(database) as pool:
        app.state.services = replace(app.state.services, pool=pool)
        yield passing


@pytest.mark.parametrize("sent", [True, False])
async def test_of_a_commit_that_nobody_heard_of_a_repeat_learns_what_it_did(admin, cut, conn, sent):
    cut.lose(sent=sent)
    first = await admin.post("/api/keys", json=KEY, headers=keyed())
    keys_then = await count(conn)

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(first) == (503, "database-unavailable")
    assert keys_then == 1 + sent
    assert again.status_code == 201
    assert ("idempotent-replayed" in again.headers) is sent
    assert await count(conn) == 2
    assert await count(conn, "audit") == 1


WAIT = """
    create function wait() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(5); return null; end $$;
    create constraint trigger slowly after insert on api_key deferrable initially deferred
        for each row execute function wait();
"""
WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
"""


async def test_a_commit_that_goes_on_after_the_cut_is_waited_for(admin, cut, conn, database):
    async with opened(database, 1) as (holder,):
        await conn.execute(WAIT)
        try:
            async with holder.transaction():
                await holder.execute("select pg_advisory_xact_lock(5)")
                cut.lose(heard=False)
                first = asyncio.create_task(admin.post("/api/keys", json=KEY, headers=keyed()))
                async with asyncio.timeout(10):
                    while await waiting(conn) < 2:  # noqa: ASYNC110 - the commit, and who frees
                        await asyncio.sleep(0.01)
                keys_then = await count(conn)
            refused = await first
        finally:
            await conn.execute("drop function wait cascade")

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(refused) == (503, "database-unavailable")
    assert keys_then == 1
    assert again.headers["idempotent-replayed"] == "true"
    assert await count(conn) == 2


async def waiting(conn):
    return (await (await conn.execute(WAITING)).fetchone())[0]


async def test_a_key_that_was_held_by_a_lost_connection_is_free(admin, monkeypatch):
    hold = kept.hold

    async def lost(*args):
        monkeypatch.setattr(kept, "hold", hold)
        await hold(*args)
        raise OperationalError

    monkeypatch.setattr(kept, "hold", lost)
    first = await admin.post("/api/keys", json=KEY, headers=keyed())
    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert [first.status_code, again.status_code] == [503, 201]


async def test_a_refusal_that_is_too_long_is_not_kept(admin, conn, monkeypatch):
    monkeypatch.setattr(kept, "LONGEST", 100)
    body = {"name": "x", "role": "Later"}

    bad = await admin.post("/api/keys", json=body, headers=keyed())
    await admin.put("/api/roles/Later", json={"capabilities": []})
    again = await admin.post("/api/keys", json=body, headers=keyed())

    assert (bad.status_code, again.status_code) == (400, 201)
    assert await count(conn) == 2


async def test_what_is_kept_is_sealed_and_bound_to_its_place(admin, call, conn):
    other = await call()
    made = await admin.post("/api/keys", json=KEY, headers=keyed())
    theirs = await other.post("/api/keys", json=KEY, headers=keyed())

    rows = await (
        await conn.execute("select idempotency::text, answer from idempotency")
    ).fetchall()
    assert all(answer.startswith("v1.tests.") for _, answer in rows)
    assert [row for row, _ in rows if "prc_" in row or "Shop" in row] == []
    await conn.execute("update idempotency set answer = (select min(answer) from idempotency)")
    again = [await one.post("/api/keys", json=KEY, headers=keyed()) for one in (admin, other)]
    assert sorted(one.status_code for one in again) == [201, 422]
    assert {one.content for one in again if one.status_code == 201} <= {
        made.content,
        theirs.content,
    }


async def test_an_answer_whose_key_is_gone_is_refused_and_not_done_again(pool, admin, conn):
    await admin.post("/api/keys", json=KEY, headers=keyed())
    services = Services(pool=pool, ring=Ring({"new": bytes(32)}))
    admin._transport.app = create_app(services)  # noqa: SLF001 - the same client elsewhere

    again = await admin.post("/api/keys", json=KEY, headers=keyed())

    assert refusal(again) == (422, "idempotency-key-reused")
    assert "sealed by a key that is gone" in again.json()["detail"]
    assert await count(conn) == 2


async def test_a_repeat_is_for_those_who_still_may(admin, conn):
    await admin.post("/api/keys", json=KEY, headers=keyed())
    await conn.execute("update api_key set role = 'Viewer' where name = 'key of Admin'")

    assert refusal(await admin.post("/api/keys", json=KEY, headers=keyed())) == (403, "forbidden")


async def test_keys_wait_for_no_second_connection_with_one_in_hand(database, call):
    admin = await call()
    async with make_pool(replace(database, pool_max=2)) as small:
        app = create_app(Services(pool=small, ring=RING))
        admin._transport.app = app  # noqa: SLF001 - the same client elsewhere
        async with asyncio.timeout(8):
            answers = await asyncio.gather(
                *(admin.post("/api/keys", json=KEY, headers=keyed(f"k{n}")) for n in range(12))
            )

    assert {one.status_code for one in answers} == {201}


async def test_other_methods_leave_the_header_alone(admin, conn):
    for _ in range(2):
        await admin.put("/api/roles/Own", json={"capabilities": []}, headers=keyed())
        await admin.get("/api/roles", headers=keyed("x" * 300))

    assert await count(conn, "idempotency") == 0


async def test_the_sweep_takes_what_is_a_day_old(admin, conn):
    for key in ("a", "b", "c"):
        await admin.post("/api/keys", json=KEY, headers=keyed(key))
    await conn.execute(
        "update idempotency set since = since - interval '25 hours'"
        " where request in (select request from idempotency limit 2)"
    )

    cursor = await conn.execute(kept.REMOVE_ANSWERS, {"older": kept.KEPT, "batch": 500})

    assert await cursor.fetchall() == [("default",), ("default",)]
    assert await count(conn, "idempotency") == 1


async def test_a_sweep_takes_every_answer_of_the_day_before(admin, conn, pool, monkeypatch):
    monkeypatch.setattr(sweep, "BATCH", 2)
    monkeypatch.setattr(sweep, "BATCHES", 1)
    for key in range(5):
        await admin.post("/api/keys", json=KEY, headers=keyed(str(key)))
    await conn.execute("update idempotency set since = since - interval '25 hours'")

    swept = await retention.swept(retention.Sweeper(pool=pool))

    assert swept.total["answers"] == 5
    assert await count(conn, "idempotency") == 0
