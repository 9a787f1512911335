"""`procession doctor`: what it says of an installation, in words and to a machine."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from urllib.parse import urlsplit

import pytest
from fix_process import KEYS
from fix_queue import jobs_that_differ
from fix_races import opened
from fix_runs import add_run, add_worker
from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation

from procession.app import at_work, examination
from procession.app.checks import read
from procession.app.finding import State
from procession.app.start import join
from procession.engine.run import Action, Status
from procession.queue import checkup, holders, mend
from procession.queue.checkup import hears
from procession.queue.migrate import migrate, migrations
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
        *("settings", "pool", "database", "connections", "session", "notifications"),
        *(
            "counterpart",
            "schema",
            "clock",
            "keys",
            "workers",
            "due",
            "leases",
            "jobs",
            "retention",
            "indexes",
        ),
    }


async def test_a_person_reads_a_line_for_each_look(command, database, pool):
    assert not pool.closed  # it is empty
    process = await command("procession", "doctor", DATABASE_URL=database.url, SECRETS__KEYS=KEYS)

    assert await process.ended() == 0
    assert "ok      schema        It has all" in "\n".join(process.said)
    assert "warning workers       0 live, of which 0 claim" in process.said
    assert f"{'':22}Start a worker: procession worker." in process.said


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


async def test_a_schema_that_is_behind_or_too_new_fails(doctor, conn):
    last = migrations()[-1]
    where = "where version = (select max(version) from schema_migration)"
    columns = "(version, name, checksum, oldest_release)"
    try:
        await conn.execute(f"delete from schema_migration {where}")
        _, behind, status = await doctor()
        values = (last.version, last.name, last.checksum, last.oldest_release)
        await conn.execute(
            f"insert into schema_migration {columns} values (%s, %s, %s, %s)", values
        )
        later = "values (9999, 'later', 'x', '9999.0.0')"
        await conn.execute(f"insert into schema_migration {columns} {later}")
        _, newer, _ = await doctor()
    finally:
        await conn.execute("delete from schema_migration where version = 9999")

    assert behind["schema"] == (
        "failed",
        f"The schema lacks {last.version:04}_{last.name}. Run `procession migrate`.",
    )
    assert newer["schema"][0] == "failed"
    assert newer["schema"][1].startswith("The schema is newer than this release: 9999_later ")
    assert status == 1


async def test_a_user_who_may_not_read_the_schema_fails(doctor, database, stranger):
    _, checks, status = await doctor(DATABASE_URL=stranger(database).url)

    assert checks["schema"][0] == "failed"
    assert checks["schema"][1].startswith("The user of DATABASE_URL may not read the schema: ")
    assert status == 1


async def test_a_database_that_is_only_readable_fails(doctor, fresh):
    async with await AsyncConnection.connect(fresh.url, autocommit=True) as one:
        name = one.info.dbname
        await one.execute(f"alter database {name} set default_transaction_read_only = on")

    _, checks, status = await doctor(DATABASE_URL=fresh.url)

    assert (checks["database"][0], status) == ("failed", 1)
    assert checks["database"][1].endswith(" is only readable")


async def test_an_index_that_was_left_half_made_is_told(doctor, conn):
    await conn.execute("create table twice (a int); insert into twice values (1), (1)")
    try:
        with pytest.raises(UniqueViolation):
            await conn.execute("create unique index concurrently half on twice (a)")
        said, checks, _ = await doctor()
    finally:
        await conn.execute("drop table twice")

    assert checks["indexes"] == ("warning", "Left half made: half")
    assert helps(said, "indexes") == "By psql, beside the work: drop index concurrently half;"


SPOILT = """
    update pg_index set indisvalid = false where indexrelid = 'run_newest'::regclass;
    drop index run_failed_age; drop index run_changes
"""


async def test_indexes_of_ours_that_are_missing_or_half_made_are_mended_by_what_it_says(
    doctor, conn
):
    await conn.execute(SPOILT)

    said, checks, _ = await doctor()
    for statement in helps(said, "indexes").partition(": ")[2].split(";"):
        if statement:
            await conn.execute(statement)
    _, mended, _ = await doctor()

    assert checks["indexes"] == (
        "warning",
        "Left half made: run_newest; Missing: run_failed_age, run_changes",
    )
    assert mended["indexes"] == ("ok", "All are there and whole")
    cursor = await conn.execute("select pg_get_indexdef('run_failed_age'::regclass)")
    assert "(completed_at) WHERE (status = ANY" in (await cursor.fetchone())[0]


async def test_connections_that_are_too_few_for_one_more_process_are_told(conn, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app")
    monkeypatch.setenv("SECRETS__KEYS", KEYS)
    settings = read("doctor").model_copy(update={"database__pool_max": 100_000})

    _, found = [one async for one in examination.server_checks(conn, settings)]

    assert found.state is State.WARNING
    assert found.helps.startswith("A worker more, or an API, may find none: ")


async def test_a_clock_that_is_off_is_told(conn, monkeypatch):
    monkeypatch.setattr(checkup, "time", lambda: time() - 40)

    (found,) = [one async for one in examination.clock_checks(conn, None)]

    assert found.state is State.WARNING
    assert found.says.startswith("40.0 s behind the database's")


@pytest.fixture
async def elsewhere(conn):
    """Another schema of this database, which has not been made."""
    yield "elsewhere"
    await conn.execute("drop schema if exists elsewhere cascade")


async def test_a_schema_beside_that_of_api_and_worker_fails_before_it_is_made_and_after(
    doctor, database, pool, elsewhere
):
    for role in ("api", "worker"):
        await join(pool, "public", role, Ring({"a": bytes(range(32))}))  # that of KEYS

    _, none, refused = await doctor(DATABASE__SCHEMA=elsewhere)
    await asyncio.to_thread(migrate, replace(database, schema=elsewhere))
    _, made, refused_again = await doctor(DATABASE__SCHEMA=elsewhere)
    _, well, status = await doctor()

    for checks in (none, made):
        assert checks["counterpart"][0] == "failed"
        assert checks["counterpart"][1].startswith("DATABASE__SCHEMA=elsewhere: the worker that ")
        assert "works in the schema public" in checks["counterpart"][1]
    assert "schema" not in none  # nobody is told to make it
    assert made["schema"][0] == "ok"
    assert well["counterpart"] == ("ok", "None works in another schema of this database")
    assert (refused, refused_again, status) == (1, 1, 0)


async def test_installations_with_keys_of_their_own_are_told_of_their_own(
    doctor, database, pool, elsewhere
):
    for role in ("api", "worker"):
        await join(pool, "public", role, Ring({"z": b"z" * 32}))
    await asyncio.to_thread(migrate, replace(database, schema=elsewhere))

    _, checks, status = await doctor(DATABASE__SCHEMA=elsewhere)

    assert (checks["counterpart"][0], status) == ("ok", 0)


async def test_without_keys_it_says_how_to_make_one_and_looks_at_the_rest(doctor, conn):
    await add_worker(conn, "Safe")

    said, checks, status = await doctor(SECRETS__KEYS="")

    (fault,) = [one for one in said["checks"] if one["name"] == "settings"]
    assert fault["says"].startswith("SECRETS__KEYS is not set: takes ")
    assert 'export SECRETS__KEYS="a:$(head -c 32 /dev/urandom | base64)"' in fault["helps"]
    assert {checks[one][0] for one in ("database", "schema", "workers", "jobs")} == {"ok"}
    assert "keys" not in checks
    assert status == 2


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


def helps(said, name):
    (found,) = [one["helps"] for one in said["checks"] if one["name"] == name]
    return found


async def test_what_is_due_for_long_is_to_be_helped_by_who_is_lacking(doctor, conn, workflow_id):
    await add_run(conn, workflow_id)
    await conn.execute("update run set due_at = now() - interval '1 hour'")

    nobody, _, _ = await doctor()
    await add_worker(conn, "Safe")
    await conn.execute("update worker set claims = false")
    idle, checks, _ = await doctor()
    await conn.execute("update worker set claims = true")
    busy, _, _ = await doctor()

    for name in ("workers", "due"):
        assert helps(nobody, name) == "Start a worker: procession worker."
        assert helps(idle, name).startswith("Each has WORKFLOWS__RUNNER_ENABLED=false: set it to ")
    assert checks["workers"] == ("failed", "1 live, of which 0 claim")
    assert helps(busy, "due").endswith("raise WORKFLOWS__RUNNER_CONCURRENCY.")


async def test_who_has_locked_runs_that_nobody_rescues_is_named(
    doctor, conn, workflow_id, database, monkeypatch
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app")
    monkeypatch.setenv("SECRETS__KEYS", KEYS)
    settings = read("doctor")
    await add_run(conn, workflow_id, Action(status=Status.RUNNING), Action(), live=False)
    await conn.execute("update run set lease_until = now() - interval '2 minutes'")
    nobody, _, _ = await doctor()
    await add_worker(conn, "Safe")
    alone, _, _ = await doctor()
    async with opened(database, 1) as (session,), session.transaction():
        await session.execute("select from run for update")
        found = await holders.holders(conn)
        monkeypatch.setattr(holders, "LONG", timedelta())
        shown = [one async for one in at_work.leases(conn, settings)]
        pid = session.info.backend_pid

    assert helps(nobody, "leases") == "Start a worker: procession worker."
    assert helps(alone, "leases").endswith("what does it log?")
    assert found == []  # a moment is nothing
    assert f"{pid} (procession, idle in transaction, 0 s). One that should not" in shown[0].helps


async def test_runs_that_the_sweep_leaves_are_told(doctor, conn, workflow_id):
    await add_worker(conn, "Safe")
    for days in (6, 7.1, 8, 9):
        at = datetime.now(UTC) - timedelta(days=days)
        await add_run(conn, workflow_id, DONE, DONE, created_at=at, completed_at=at)

    _, checks, _ = await doctor()
    _, kept, _ = await doctor(WORKFLOWS__RETENTION__SUCCEEDED="0")

    assert checks["retention"][0] == "warning"
    assert checks["retention"][1].startswith("2 runs and deliveries should have been ")
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
    assert found[0].says == "Settings of a session do not arrive"
    assert "A pooler stands between" in found[0].helps


async def test_a_session_in_another_schema_says_of_which_the_rest_is(pool, conn, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app")
    monkeypatch.setenv("SECRETS__KEYS", KEYS)
    monkeypatch.setenv("DATABASE__SCHEMA", "mine")
    settings = read("doctor").model_copy(update={"database_url": str(pool.conninfo)})

    found = [one async for one in examination.session_checks(conn, settings)]

    assert found[0].state is State.FAILED
    assert found[0].says.endswith("do not arrive: what follows is of the schema public, not mine")
