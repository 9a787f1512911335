"""Exchanging the keys of what is kept secret, as an operator does it."""

import base64

import httpx2
import pytest
from fix_process import KEYS
from fix_worker import free_port

from procession.engine.connector_body import parse_connector
from procession.queue import connectors, first_key
from procession.queue.audit import By
from procession.queue.connectors import Saving
from procession.queue.sealing import Ring

pytestmark = pytest.mark.slow

NEW = bytes(range(32, 64))
RING = Ring({"tests": bytes(range(32))})
CHANGED = f"new:{base64.b64encode(NEW).decode()},{KEYS}"


@pytest.fixture
async def connected(conn):
    body = {
        "name": "Ledger",
        "baseUrl": "https://ledger.example.com",
        "auth": "BearerToken",
        "secrets": {"token": "hunter2-planted"},
    }
    sent = parse_connector(body, lambda _: False)
    await connectors.save(conn, Saving("default", "ledger", sent, RING), By())


async def opened(conn, ring):
    return (await connectors.one(conn, "default", "ledger")).opened(ring)


@pytest.mark.usefixtures("connected")
async def test_rekey_writes_all_of_it_under_the_first_key(conn, command, database):
    rekey = await command("procession", "rekey", DATABASE_URL=database.url, SECRETS__KEYS=CHANGED)

    assert await rekey.ended() == 0
    assert rekey.said == ["Rewrote 1 secrets; 0 were under the first key already."]
    assert await opened(conn, Ring({"new": NEW})) == {"token": "hunter2-planted"}


@pytest.mark.usefixtures("connected")
async def test_rekey_says_what_no_key_opens(command, database):
    keys = CHANGED.split(",", maxsplit=1)[0]
    rekey = await command("procession", "rekey", DATABASE_URL=database.url, SECRETS__KEYS=keys)

    assert await rekey.ended() == 1
    assert rekey.said[-1] == (
        "No key opens it, add the one it was written under to SECRETS__KEYS or enter it again: "
        "default: connector ledger, token"
    )


async def test_a_worker_that_lacks_the_first_key_of_the_api_is_not_ready(conn, work):
    await first_key.note(conn, Ring({"new": NEW}).digest)
    port = await free_port()

    worker = await work(PORT=port)
    await worker.until("lacks the key that the API seals with")  # before anybody asks
    async with httpx2.AsyncClient(trust_env=False) as client:
        ready = await client.get(f"http://127.0.0.1:{port}/health/ready")
        await first_key.note(conn, RING.digest)
        later = await client.get(f"http://127.0.0.1:{port}/health/ready")

    assert (ready.status_code, ready.json()["reasons"]) == (503, ["secrets"])
    assert later.json() == {"status": "ready"}


async def test_the_api_notes_its_first_key(conn, command, database):
    api = await command(
        "procession", "api", DATABASE_URL=database.url, HOST="127.0.0.1",
        PORT=await free_port(), SECRETS__KEYS=CHANGED,
    )  # fmt: skip
    await api.until("Listening on")

    noted = await first_key.noted(conn)

    assert Ring({"new": NEW}).holds(noted)
    assert not RING.holds(noted)
