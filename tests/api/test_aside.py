"""Long bodies are checked beside the loop, one after another, and hold no connection meanwhile."""

import asyncio
import contextlib
from dataclasses import replace

import pytest
from fix_api import RING, add_key, add_tenant, client_of, declare

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.queue.pool import make_pool

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
LONG = "{{data.Title}}" * 1_000


def flow(name="Announce", **parameters):
    webhook = {"Url": "https://h.example.org/hook", "Secret": SECRET, **parameters}
    return {
        "name": name,
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Published"],
        "actions": [{"type": "Webhook", "parameters": webhook}],
    }


@pytest.fixture
async def services(database, pool):  # noqa: ARG001 - which empties it
    """A process with one connection, where somebody else's long body is being checked."""
    async with make_pool(replace(database, pool_max=1, connect_timeout=2)) as single:
        made = Services(pool=single, ring=RING, catalogue=load(built_in(), []).catalogue())
        await made.turn.acquire()
        yield made


@pytest.fixture
async def admin(services, conn):
    token = await add_key(conn)
    app = create_app(services)
    async with client_of(app, {"Authorization": f"Bearer {token}"}) as client:
        await declare(client)
        yield client


@contextlib.asynccontextmanager
async def waiting(admin, services, method, path, body):
    """The request, which has come as far as it does without its turn."""
    asked = asyncio.create_task(admin.request(method, path, json=body))
    for _ in range(20):  # each takes the connection, if somebody gives it back
        answer = await admin.get("/api/workflows")
        assert answer.status_code == 200, answer.text
    assert not asked.done()
    yield asked
    services.turn.release()


async def made(admin):
    return (await admin.post("/api/workflows", json=flow())).json()


ENTRY = {"contentType": "Article", "data": {"Title": "One"}}


async def asking(admin, way, text):
    """A request of each kind that checks a workflow."""
    match way:
        case "PUT":
            return "PUT", f"/api/workflows/{(await made(admin))['id']}", flow(Note=text)
        case "dry-run":
            return "POST", "/api/workflows/dry-run", {"workflow": flow(Note=text), "entry": ENTRY}
        case _:
            return "POST", f"/api/workflows{way}", flow(Note=text)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
@pytest.mark.parametrize("way", ["", "/validate", "PUT", "dry-run"])
async def test_a_long_body_that_waits_for_its_turn_holds_no_connection(
    admin, services, way, headers
):
    method, path, body = await asking(admin, way, LONG)
    admin.headers.update(headers)

    async with waiting(admin, services, method, path, body) as asked:
        pass

    async with asyncio.timeout(10):
        assert (await asked).status_code in {200, 201}


@pytest.mark.parametrize("way", ["", "/validate", "PUT", "dry-run"])
async def test_a_short_body_waits_for_nobody(admin, way):
    method, path, body = await asking(admin, way, "{{data.Title}}")

    async with asyncio.timeout(10):
        answer = await admin.request(method, path, json=body)

    assert answer.status_code in {200, 201}


async def test_a_long_body_is_compared_with_what_was_saved_meanwhile(admin, services):
    stored = await made(admin)
    path = f"/api/workflows/{stored['id']}"
    keeping = flow("Other")  # all but the credential, which is to stay
    del keeping["actions"][0]["parameters"]["Secret"]
    assert stored["actions"][0]["credentialsSet"] == ["Secret"]
    odd = {"note": "x" * 5_000}

    async with waiting(admin, services, "PUT", path, {**keeping, **odd}) as asked:
        cleared = await admin.put(path, json=flow("Cleared", Secret=""))
        assert cleared.status_code == 200, cleared.text

    async with asyncio.timeout(10):
        saved = await asked
    assert (saved.status_code, saved.json()["name"]) == (200, "Other")
    assert saved.json()["actions"][0]["credentialsSet"] == []
    assert [one["field"] for one in saved.json()["warnings"]] == ["note"]


async def test_what_is_checked_again_holds_no_connection_either(admin, services):
    path = f"/api/workflows/{(await made(admin))['id']}"

    async with waiting(admin, services, "PUT", path, flow("Other", Note=LONG)) as asked:
        again = asyncio.create_task(services.turn.acquire())  # behind it: it needs a second turn
        assert (await admin.put(path, json=flow("Another"))).status_code == 200
    await again
    for _ in range(20):
        assert (await admin.get(path)).json()["name"] == "Another"
    assert not asked.done()
    services.turn.release()

    async with asyncio.timeout(10):
        assert (await asked).json()["name"] == "Other"


async def test_what_is_not_there_is_not_found_however_long_the_body(admin, services):
    services.turn.release()
    path = "/api/workflows/00000000-0000-7000-8000-000000000000"

    assert (await admin.put(path, json=flow(Note=LONG))).status_code == 404


async def test_the_tenants_take_turns_however_many_bodies_one_of_them_sends(admin, services, conn):
    await add_tenant(conn, "acme")
    token = await add_key(conn, tenant="acme")
    ended = []

    async def ask(name, client):
        answer = await client.post("/api/workflows/validate", json=flow(name, Note=LONG))
        assert answer.status_code == 200, answer.text
        ended.append(name)

    async with (
        client_of(create_app(services), {"Authorization": f"Bearer {token}"}) as other,
        asyncio.TaskGroup() as asking,
    ):
        await declare(other)
        for at in range(4):
            asking.create_task(ask(f"many {at}", admin))
        for _ in range(20):
            assert (await admin.get("/api/workflows")).status_code == 200
        asking.create_task(ask("one", other))
        for _ in range(20):
            assert (await other.get("/api/workflows")).status_code == 200
        services.turn.release()

    assert "one" in ended[:2]
