"""DATABASE__SCHEMA: two installations in one database do not meet, and halves of one find out."""

import asyncio
import base64

import httpx2
import pytest
from fix_process import KEYS
from fix_worker import OURS, PLAIN, announce, finished, free_port, publish

from procession.queue.migrate import migrate
from procession.queue.pool import Database

pytestmark = pytest.mark.slow

OTHER_KEYS = f"tests:{base64.b64encode(bytes(32)).decode()}"
TOKEN = "a-token-of-32-characters-or-more-"


@pytest.fixture
async def schemas(database, conn):
    """Two schemas of the test's database, migrated."""
    names = ("one", "two")
    for name in names:
        await asyncio.to_thread(migrate, Database(database.url, schema=name))
    yield names
    for name in names:
        await conn.execute(f"drop schema {name} cascade")


@pytest.fixture
def begin(command, database):
    """Starts a command in a schema."""

    async def start(line, schema, keys=KEYS):
        return await command(
            *line,
            DATABASE_URL=database.url,
            DATABASE__SCHEMA=schema,
            SECRETS__KEYS=keys,
            CONTROL_TOKEN=TOKEN,
            HOST="127.0.0.1",
            PORT=(port := await free_port()),
            LOG__FORMAT="text",
            OUTBOUND__ALLOWED_NETWORKS="127.0.0.0/8",
        ), port

    return start


API = ("procession", "api")


async def test_two_installations_in_one_database_do_not_meet(begin, schemas, receiver, conn):
    callers, workers = [], []
    for schema, keys in zip(schemas, (KEYS, OTHER_KEYS), strict=True):
        api, port = await begin(API, schema, keys)
        await api.until("Listening on")
        caller = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {TOKEN}", "X-Tenant": "default"},
            trust_env=False,
        )
        callers.append(caller)
        assert (await caller.put("/api/content-types/Article", json={})).status_code == 201
        await announce(caller, receiver)

    run_id = await publish(callers[0], "mine")
    worker, _ = await begin(PLAIN, schemas[1], OTHER_KEYS)
    await worker.until("Listening on")
    theirs = await publish(callers[1], "theirs")
    await finished(callers[1], theirs)
    waits = (await callers[0].get(f"/api/workflow-runs/{run_id}")).json()
    mine, _ = await begin(PLAIN, schemas[0])
    done = await finished(callers[0], run_id)

    assert (waits["status"], waits["waiting"]["reason"]) == ("Pending", "NoWorker")
    assert done["status"] == "Succeeded"
    assert len(receiver.received) == 2
    assert (await callers[1].get(f"/api/workflow-runs/{run_id}")).status_code == 404
    cursor = await conn.execute("select count(*) from run")
    assert await cursor.fetchone() == (0,)
    workers += [worker, mine]
    assert [await one.stop() for one in workers] == [0, 0]
    for one in callers:
        await one.aclose()


@pytest.mark.parametrize("line", [OURS, PLAIN], ids=" ".join)
async def test_a_worker_in_another_schema_than_its_api_refuses_to_work(begin, schemas, line):
    api, _ = await begin(API, schemas[0])
    await api.until("Listening on")

    worker, _ = await begin(line, schemas[1])

    assert await worker.ended() == 2
    said = worker.said[-1]
    assert said.startswith("procession: DATABASE__SCHEMA=two: the api that shares a key")
    assert " works in the schema one, so that they would never meet." in said


async def test_an_api_in_another_schema_than_its_worker_refuses_to_serve(begin, schemas):
    worker, _ = await begin(OURS, schemas[1])
    await worker.until("Listening on")

    api, _ = await begin(API, schemas[0])

    assert await api.ended() == 2
    assert "works in the schema two" in api.said[-1]
