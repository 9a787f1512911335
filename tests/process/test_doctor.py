"""`procession doctor`: what it says of an installation, in words and to a machine."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from fix_process import KEYS
from fix_queue import jobs_that_differ
from fix_runs import add_run, add_worker

from procession.app import examination
from procession.app.checks import read
from procession.app.finding import State
from procession.engine.run import Action, Status
from procession.queue import mend
from procession.queue.checkup import hears
from procession.queue.pool import Database
from procession.queue.requeue import requeue
from procession.queue.sealing import Ring

pytestmark = pytest.mark.slow

DONE = Action(status=Status.SUCCEEDED)


@pytest.fixture
def doctor(command, database):
    """Runs `procession doctor --json`: what it found by the name of the look, and its status."""

    async def run(*options, **variables):
        settings = {"DATABASE_URL": database.url, "SECRETS__KEYS": KEYS}
        process = await command("procession", "doctor", "--json", *options, **settings | variables)
        status = await process.ended()
        said = json.loads("\n".join(process.said))
        return said, {one["name"]: (one["state"], one["says"]) for one in said["checks"]}, status

    return run


async def test_an_installation_that_is_well_is_said_to_be(doctor, conn):
    await add_worker(conn, "Safe")

    said, checks, status = await doctor()

    assert {state for state, _ in checks.values()} == {"ok"}, checks
    assert (said["ok"], said["requeued"], status) == (True, None, 0)
    assert set(checks) == {
        *("settings", "pool", "database", "connections", "session", "notifications", "schema"),
        *("clock", "keys", "workers", "due", "leases", "jobs", "retention", "indexes"),
    }


async def test_a_person_reads_a_line_for_each_look(command, database, pool):
    assert not pool.closed  # it is empty
    process = await command("procession", "doctor", DATABASE_URL=database.url, SECRETS__KEYS=KEYS)

    assert await process.ended() == 0
    assert "ok      schema        It has all" in "\n".join(process.said)
    assert "warning workers       0 live, of which 0 claim" in process.said
    assert f"{'':22}Start one: procession worker." in process.said


async def test_settings_that_are_wrong_end_it_with_status_two(doctor):
    _, checks, status = await doctor(PORT="http", WORKFLOWS__RUNNER_CONCURRENCY="15")

    assert status == 2
    assert checks["settings"][0] == "failed"


async def test_the_rule_of_the_pool_is_looked_at(doctor):
    _, checks, status = await doctor(WORKFLOWS__RUNNER_CONCURRENCY="15")

    assert status == 2
    assert checks["settings"][0] == "failed"
    assert checks["settings"][1].startswith("DATABASE__POOL_MAX=12: takes at least 17, which is")


async def test_a_setting_that_nobody_knows_is_a_warning(doctor):
    _, checks, status = await doctor(WORKFLOWS__RUNER_ENABLED="no")

    assert (checks["settings"][0], status) == ("warning", 0)
    assert "WORKFLOWS__RUNNER_ENABLED" in checks["settings"][1]


async def test_a_database_that_is_away_fails(doctor):
    said, checks, status = await doctor(DATABASE_URL="postgresql://127.0.0.1:1/app")

    assert checks["database"][0] == "failed"
    assert (said["ok"], status) == (False, 1)


async def test_a_schema_that_is_not_there_fails(doctor):
    _, checks, status = await doctor(DATABASE__SCHEMA="nowhere")

    assert checks["schema"][0] == "failed"
    assert "Run `procession migrate`." in checks["schema"][1]
    assert status == 1


async def test_the_key_of_the_api_that_is_lacking_fails(doctor, conn):
    other = Ring({"z": b"z" * 32}).digest
    await conn.execute("insert into first_key (digest) values (%s)", (other,))

    _, checks, status = await doctor()

    assert (checks["keys"][0], status) == ("failed", 1)


async def test_leases_that_nobody_rescues_fail(doctor, conn, workflow_id):
    running = (Action(status=Status.RUNNING), Action())
    await add_run(conn, workflow_id, *running, live=False)

    _, checks, status = await doctor()

    assert checks["leases"][0] == "failed"
    assert checks["leases"][1].startswith("1 have lapsed, the oldest ")
    assert status == 1


async def test_due_work_without_a_worker_fails_and_what_nobody_serves_is_told(
    doctor, conn, workflow_id
):
    await add_run(conn, workflow_id, no_worker_since=datetime.now(UTC))

    _, checks, status = await doctor()

    assert checks["workers"] == ("failed", "0 live, of which 0 claim")
    assert checks["due"][0] == "warning"
    assert checks["stuck"][1].startswith("1 runs wait for an action type")
    assert status == 1


async def test_runs_that_the_sweep_leaves_are_told(doctor, conn, workflow_id):
    await add_worker(conn, "Safe")
    for days in (6, 7.1, 8, 9):
        at = datetime.now(UTC) - timedelta(days=days)
        await add_run(conn, workflow_id, DONE, DONE, created_at=at, completed_at=at)

    _, checks, _ = await doctor()
    _, kept, _ = await doctor(WORKFLOWS__RETENTION__SUCCEEDED="0")

    assert checks["retention"][0] == "warning"
    assert checks["retention"][1].startswith("2 runs and deliveries are older")
    assert kept["retention"][0] == "ok"


EMPTIED = "delete from procrastinate_jobs"
DOUBLED = """
    insert into procrastinate_jobs (queue_name, task_name, lock, args, scheduled_at)
    select queue_name, task_name, lock, args, scheduled_at from procrastinate_jobs
"""


@pytest.mark.parametrize("spoil", [EMPTIED, DOUBLED], ids=["emptied", "doubled"])
async def test_the_queue_is_made_anew_from_the_runs(doctor, conn, make, spoil):
    made = await make("Safe")
    await made.queue(300)
    await conn.execute(spoil)

    said, checks, status = await doctor("--requeue")

    assert await jobs_that_differ(conn) == []
    assert checks["jobs"] == ("ok", "Each due run has one")
    expected = {"missing": 300, "needless": 0} if spoil is EMPTIED else {}
    assert expected.items() <= said["requeued"]["before"].items()
    assert said["requeued"]["after"] == {"missing": 0, "needless": 0}
    assert status == 1  # work is due, and no worker lives


@pytest.mark.parametrize("spoil", [EMPTIED, DOUBLED], ids=["emptied", "doubled"])
async def test_it_goes_round_all_runs_and_all_jobs(database, conn, make, monkeypatch, spoil):
    monkeypatch.setattr(mend, "STRETCH", 100)
    await (await make("Safe")).queue(350)
    await conn.execute(spoil)

    await asyncio.to_thread(requeue, database)

    assert await jobs_that_differ(conn) == []


async def test_the_queue_is_made_anew_while_workers_go_on(doctor, conn, make, worked):
    made = await make("Safe")
    ids = await made.queue(400)
    async with worked.working(concurrency=5):
        await conn.execute("delete from procrastinate_jobs where status = 'todo'")
        await doctor("--requeue")
        async with asyncio.timeout(60):
            while True:
                cursor = await conn.execute("select count(*) from run where completed_at is null")
                if await cursor.fetchone() == (0,):
                    break
                await asyncio.sleep(0.05)

    cursor = await conn.execute("select count(*), count(distinct run_id) from attempt")
    assert await cursor.fetchone() == (len(ids), len(ids))
    assert await jobs_that_differ(conn) == []


async def test_nothing_is_made_anew_where_there_is_nothing(command):
    process = await command(
        "procession",
        "doctor",
        "--requeue",
        DATABASE_URL="postgresql://127.0.0.1:1/app",
        SECRETS__KEYS=KEYS,
    )

    assert await process.ended() == 1
    assert process.said[-1].endswith("Nothing was changed.")


@asynccontextmanager
async def without_notifications(url):
    """The address of a proxy that lets everything by but what a listener hears."""
    parts = urlsplit(url)

    async def forward(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def sieve(reader, writer):
        writer.write(await reader.readexactly(1))  # the answer to whether it speaks TLS: no
        while True:
            kind = await reader.readexactly(1)
            size = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size, "big") - 4)
            if kind != b"A":
                writer.write(kind + size + body)

    serving = set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        theirs, ours = await asyncio.open_connection(parts.hostname, parts.port)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await asyncio.gather(forward(reader, ours), sieve(theirs, writer))
        for one in (ours, writer):
            one.close()
            with suppress(ConnectionError):
                await one.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        user = parts.netloc.partition("@")[0]
        yield parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
        for one in serving:
            one.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def test_whether_notifications_arrive_is_tried(database):
    assert await hears(database)
    if urlsplit(database.url).port:
        async with without_notifications(
            f"{database.url}?sslmode=prefer&gssencmode=disable"
        ) as url:
            assert not await hears(Database(url))


async def test_a_session_that_is_not_set_as_ours_fails(pool, conn, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app")
    monkeypatch.setenv("SECRETS__KEYS", KEYS)
    monkeypatch.setenv("DATABASE__STATEMENT_TIMEOUT_SECONDS", "17")
    settings = read("doctor").model_copy(update={"database_url": str(pool.conninfo)})

    found = [one async for one in examination.session_checks(conn, settings)]

    assert found[0].state is State.FAILED
    assert "A pooler stands between" in found[0].helps
