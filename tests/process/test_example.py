"""The example package installed and performed by a real worker; workers killed as they write."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
import pytest
from fix_api import add_key
from fix_process import COMMANDS
from fix_receiver import answer
from fix_worker import finished, free_port

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/ledger"
KEYS = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.fixture
async def installed(tmp_path):
    """A folder that the example is installed in."""
    line = ("pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation")
    process = await asyncio.create_subprocess_exec(
        COMMANDS / "uv",
        *line,
        "--python",
        sys.executable,
        "--target",
        tmp_path,
        EXAMPLE,
        env={**os.environ, "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return tmp_path


@pytest.fixture
async def client(command, work, conn, database, installed):
    """A caller of an API, beside a worker, both of them with the example."""
    port = await free_port()
    beside = {"PYTHONPATH": installed, "SECRETS__KEYS": KEYS}
    api = await command(
        "procession",
        "api",
        DATABASE_URL=database.url,
        HOST="127.0.0.1",
        PORT=port,
        LOG__FORMAT="text",
        **beside,
    )
    await api.until("Listening on")
    await work(**beside)
    headers = {"Authorization": f"Bearer {await add_key(conn)}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as made:
        yield made


async def test_the_example_is_installed_and_performed_by_a_real_worker(client, receiver):
    (await client.put("/api/content-types/Order", json={})).raise_for_status()
    ledger = {"Ledger": receiver.url().rstrip("/"), "ApiKey": "let-me-in"}
    workflow = {
        "name": "Book an order",
        "triggerContentTypes": ["Order"],
        "triggerEvents": ["Created"],
        "actions": [
            {
                "type": "PostInvoice",
                "parameters": {**ledger, "Amount": "{{id}}"},
                "capture": ["invoiceId"],
            }
        ],
    }
    made = await client.post("/api/workflows", json=workflow)
    assert made.status_code == 201, made.text
    receiver.will(answer(201, json.dumps({"id": "i-7"}).encode()))
    saved = await client.put("/api/entries/Order/o-1", json={"data": {}})
    run = await finished(client, saved.json()["runIds"][0])
    types = {one["type"]: one for one in (await client.get("/api/workflows/actions")).json()}

    assert run["status"] == "Succeeded", run
    assert run["actions"][0]["outputs"] == {"invoiceId": "i-7"}
    received = await receiver.next()
    assert json.loads(received.body) == {"amount": "o-1", "order": "o-1"}
    assert received.headers["authorization"] == "Bearer let-me-in"
    assert types["PostInvoice"]["served"]
    assert types["VoidInvoice"]["repeatable"] == "Always"


HOLD_RECORDS = """
    create function held() returns trigger language plpgsql as $$
    begin
        if exists (select from marker where tenant = new.tenant and run_id = new.id) then
            perform pg_advisory_xact_lock(4711);
        end if;
        return new;
    end $$;
    create trigger held before update on run for each row
    when (old.actions is distinct from new.actions) execute function held();
"""
LET_GO = "drop trigger held on run; drop function held"
CUT = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and wait_event = 'advisory'
"""
WAITING = """
    select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and wait_event = %s
"""


async def waiting(conn, event):
    async with asyncio.timeout(30):
        while not (await conn.execute(WAITING, (event,))).rowcount:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.02)


async def fire(admin):
    """The run of a workflow that makes a task and writes a field."""
    (
        await admin.put("/api/content-types/Article", json={"fields": {"Seen": {}}})
    ).raise_for_status()
    (await admin.put("/api/content-types/Task", json={})).raise_for_status()
    write = {"type": "UpdateField", "parameters": {"Field": "Seen", "Value": "{{data.Seen}}x"}}
    workflow = {
        "name": "Note",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": [write, {"type": "CreateTask", "parameters": {"Title": "Look"}}],
    }
    (await admin.post("/api/workflows", json=workflow)).raise_for_status()
    saved = await admin.put("/api/entries/Article/a", json={"data": {"Seen": ""}})
    return saved.json()["runIds"][0]


async def seen(conn):
    cursor = await conn.execute("select data ->> 'Seen', version from entry where id = 'a'")
    return await cursor.fetchone()


async def test_a_write_that_a_killed_worker_could_not_record_is_not_made_again(
    admin, work, conn, pool
):
    await conn.execute(HOLD_RECORDS)
    try:
        async with pool.connection() as other:
            await other.execute("select pg_advisory_lock(4711)")
            worker = await work()
            run_id = await fire(admin)
            await waiting(conn, "advisory")
            assert await seen(conn) == ("x", 2)
            await worker.kill()
            await conn.execute(CUT)  # or its server would go on with what it was told last
            await other.execute("select pg_advisory_unlock(4711)")
    finally:
        await conn.execute(LET_GO)
    await work()
    run = await finished(admin, run_id)

    assert await seen(conn) == ("x", 2)
    assert run["status"] == "Succeeded"
    assert [one["outcome"] for one in run["actions"][0]["history"]] == ["Lost", "Succeeded"]
    cursor = await conn.execute("select count(*) from entry where content_type = 'Task'")
    assert await cursor.fetchone() == (1,)


async def test_a_worker_that_is_killed_while_it_writes_leaves_nothing_half_done(
    admin, work, conn, pool
):
    run_id = await fire(admin)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from entry for no key update")
        worker = await work()
        await waiting(conn, "transactionid")
        await worker.kill()
        assert await seen(conn) == ("", 1)
    await work()
    run = await finished(admin, run_id)

    assert await seen(conn) == ("x", 2)
    assert [one["outcome"] for one in run["actions"][0]["history"]] == ["Lost", "Succeeded"]
