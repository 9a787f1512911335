"""Workers as processes, and a workflow whose runs they perform against a receiver of the test's."""

import asyncio

import pytest
from fix_process import KEYS

PLAIN = ("procrastinate", "--app", "procession.app.worker.jobs", "worker")
OURS = ("procession", "worker")


@pytest.fixture
async def announcing(admin, receiver):
    """A workflow that posts each published article to the receiver."""
    assert (await admin.put("/api/content-types/Article", json={})).status_code == 201
    await announce(admin, receiver)
    return admin


async def announce(client, receiver):
    workflow = {
        "name": "Announce article",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Published"],
        "actions": [{"type": "Webhook", "parameters": {"Url": receiver.url()}}],
    }
    made = await client.post("/api/workflows", json=workflow)
    assert made.status_code == 201, made.text


async def publish(client, entry):
    """The id of the run that the entry fires."""
    saved = await client.put(
        f"/api/entries/Article/{entry}", json={"status": "Published", "data": {}}
    )
    assert saved.status_code == 201, saved.text
    return saved.json()["runIds"][0]


@pytest.fixture
def work(command, database):
    """Starts a worker on the test's database, and waits until it is up."""

    async def start(line=OURS, url=database.url, **variables):
        settings = {
            "HOST": "127.0.0.1",
            "PORT": await free_port(),
            "LOG__FORMAT": "text",
            "OUTBOUND__ALLOWED_NETWORKS": "127.0.0.0/8",
            "SECRETS__KEYS": KEYS,
        }
        process = await command(*line, **{"DATABASE_URL": url, **settings, **variables})
        await process.until("Listening on")
        return process

    return start


async def free_port():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        return server.sockets[0].getsockname()[1]


async def finished(client, run_id, seconds=60):
    async with asyncio.timeout(seconds):
        while True:
            run = (await client.get(f"/api/workflow-runs/{run_id}")).json()
            if run["completedAt"]:
                return run
            await asyncio.sleep(0.05)
