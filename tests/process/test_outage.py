"""Postgres goes away while entries are saved and runs are performed: nothing is lost."""

import asyncio
import os
import signal

import httpx2
import psycopg
import pytest
from fix_process import KEYS, postmaster
from fix_worker import announce, finished, free_port

from procession.app.local import serve
from procession.queue.migrate import migrate
from procession.queue.pool import Database

pytestmark = pytest.mark.slow

AWAY = 14  # seconds, after which a wait that doubles each time is one of sixteen


@pytest.fixture
def own(home):
    """A server of the test's own, with our schema, and what stops and starts it again."""
    with serve(home / "postgres") as local:
        migrate(Database(local.url))
        yield local


async def test_postgres_is_restarted_under_load_and_nothing_is_lost(
    own, home, command, work, receiver
):
    at = f"http://127.0.0.1:{(port := await free_port())}"
    variables = {"DATABASE_URL": own.url, "HOST": "127.0.0.1", "LOG__FORMAT": "text"}
    variables |= {"SECRETS__KEYS": KEYS}
    key = await command("procession", "key", "create", "--name", "tests", **variables)
    token = await key.until("prc_")
    api = await command("procession", "api", PORT=port, **variables)
    await api.until("Listening on")
    worker = await work(url=own.url, WORKFLOWS__RUNNER_CONCURRENCY=5)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=at, headers=headers, trust_env=False) as client:
        await client.put("/api/content-types/Article", json={})
        await announce(client, receiver)
        saving = asyncio.create_task(_save(client, 100))
        for _ in range(10):
            await receiver.next()

        os.kill(postmaster(home / "postgres"), signal.SIGQUIT)  # as a crash is: nothing is flushed
        own.restart()

        runs = await saving
        done = [await finished(client, one) for one in runs]

    assert {one["status"] for one in done} == {"Succeeded"}
    assert len({one.headers["webhook-id"] for one in receiver.received}) == _kept(own.url) == 100
    assert await worker.stop() == 0
    assert await api.stop() == 0


async def test_however_long_postgres_was_away_a_worker_is_back_within_seconds(own, home, work):
    port = await free_port()
    worker = await work(url=own.url, PORT=port)
    os.kill(postmaster(home / "postgres"), signal.SIGQUIT)
    await worker.until("The keeper cannot reach the database")
    await asyncio.sleep(AWAY)
    own.restart()

    async with asyncio.timeout(6), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            ready = await client.get(f"http://127.0.0.1:{port}/health/ready")
            if ready.status_code == 200:
                break
            await asyncio.sleep(0.1)

    assert ready.json() == {"status": "ready"}
    assert await worker.stop() == 0


async def _save(client, count):
    """Save so many entries, each again for as long as it is not taken."""
    runs = []
    while len(runs) < count:
        if run := await _once(client, f"a{len(runs)}"):
            runs.append(run)
        else:
            await asyncio.sleep(0.2)
    return runs


async def _once(client, entry):
    saved = await client.put(
        f"/api/entries/Article/{entry}", json={"status": "Published", "data": {}}
    )
    if saved.status_code == 503:
        assert saved.json()["code"] == "database-unavailable"
        return None
    assert saved.status_code in (200, 201), saved.text
    if saved.json()["runIds"]:
        return saved.json()["runIds"][0]
    listed = await client.get("/api/workflow-runs", params={"entryId": entry})
    return listed.json()["items"][0]["id"]  # it was taken, and the answer was lost


def _kept(url):
    with psycopg.connect(url) as conn:
        return conn.execute("select count(*) from run").fetchone()[0]
