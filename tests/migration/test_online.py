"""Migrating beside the work: nobody waits for long, whatever is large or stays open."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from procession.queue import migrate as module
from procession.queue import waiting as waits
from procession.queue.migrate import LOCK_WAIT, Migration, MigrationError, migrate, migrations
from procession.queue.pool import Database

pytestmark = pytest.mark.slow

FIRST = 12  # the newest migration of the first release; what follows meets tables in use
RUNS = 200_000
FILL = """
    insert into workflow (tenant, id, name) values ('default', '{0}', 'Large');
    insert into workflow_version (tenant, workflow_id, version, definition)
    values ('default', '{0}', 1, '{{}}');
    insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                     entry_id, trigger, status, completed_at, actions)
    select 'default', gen_random_uuid(), '{0}', 1, 'Large', 'Article', 'a' || number, 'Created',
           'Succeeded', now() - number * interval '1 s', '[{{"status": "Succeeded"}}]'
    from generate_series(1, {1}) as number
""".format("00000000-0000-0000-0000-000000000001", RUNS)
WRITE = """
    update run set updated_at = clock_timestamp(), version = version + 1
    where tenant = 'default'
      and id = (select id from run where tenant = 'default' and id > gen_random_uuid()
                order by id limit 1)
"""
JOB = "insert into procrastinate_jobs (queue_name, task_name) values ('default', 'attempt')"


class Writers:
    """Sessions that write without a rest, and how long the slowest write took."""

    def __init__(self, database, count=3):
        self.slowest, self.writes, self._stop = 0.0, 0, threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(database,)) for _ in range(count)
        ]

    def _write(self, database):
        with psycopg.connect(database.conninfo, autocommit=True) as conn:
            while not self._stop.is_set():
                began = time.monotonic()
                conn.execute(WRITE)
                conn.execute(JOB)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.writes += 1

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for one in self._threads:
            one.join()


@pytest.fixture
def large(fresh, monkeypatch):
    """A database of the first release with many runs."""
    with monkeypatch.context() as first:
        first.setattr(module, "migrations", lambda: [m for m in migrations() if m.version <= FIRST])
        migrate(fresh)
    with psycopg.connect(fresh.conninfo, autocommit=True) as conn:
        conn.execute("set statement_timeout = 0")
        for statement in FILL.split(";"):
            conn.execute(statement)
        conn.execute("analyze")
    return fresh


def test_what_this_release_adds_is_added_while_others_write(large):
    later = [f"{m.version:04}_{m.name}" for m in migrations() if m.version > FIRST]

    with Writers(large) as writers:
        applied = migrate(large)

    assert applied == later
    assert writers.writes > 100
    assert writers.slowest < LOCK_WAIT + 1


COLUMN = Migration(9000, "column", "-- oldest release: 0.1.0\nalter table run add later integer")


def with_a_column(monkeypatch):
    monkeypatch.setattr(module, "migrations", lambda: [*migrations(), COLUMN])


def test_a_table_in_use_is_waited_for_in_turns_so_that_others_go_on(large, monkeypatch):
    migrate(large)
    with_a_column(monkeypatch)
    held = psycopg.connect(large.conninfo, autocommit=True)
    held.execute("set idle_in_transaction_session_timeout = 0")
    held.execute("begin; select from run limit 1")
    timer = threading.Timer(3.5, held.execute, ["commit"])
    timer.start()

    with Writers(large) as writers:
        began = time.monotonic()
        applied = migrate(large)
        took = time.monotonic() - began

    assert (applied, took > 3) == (["9000_column"], True)
    assert writers.slowest < LOCK_WAIT + 1
    timer.join()
    held.close()


def test_a_transaction_that_stays_open_ends_it_with_a_sentence(fresh, monkeypatch):
    migrate(fresh)
    with_a_column(monkeypatch)
    monkeypatch.setattr(module, "LOCK_TRIES", 2)
    monkeypatch.setattr(module, "LOCK_WAIT", 0.1)
    with psycopg.connect(fresh.conninfo) as held:
        held.execute("set idle_in_transaction_session_timeout = 0")
        held.execute("select from run")
        with pytest.raises(MigrationError, match="9000_column needs a table that has been in use"):
            migrate(fresh)

    assert migrate(fresh) == ["9000_column"]


@pytest.fixture
def waiting(fresh, monkeypatch, caplog):
    """A migration that goes on beside the block, and what it says of its wait."""
    monkeypatch.setattr(waits, "EVERY", 0.2)

    @contextmanager
    def until_said():
        done = []
        thread = threading.Thread(target=lambda: done.append(migrate(fresh)))
        thread.start()
        until = time.monotonic() + 20
        while not (said := [one.getMessage() for one in caplog.records]):
            assert time.monotonic() < until, "it says nothing"
            time.sleep(0.05)
        yield said[0]
        thread.join()
        assert len(done) == 1

    return until_said


def test_who_is_waited_for_beside_the_work_is_named(fresh, waiting):
    with psycopg.connect(fresh.url, application_name="a report") as held:
        held.execute("begin isolation level repeatable read; select 1")
        pid = held.info.backend_pid
        with waiting() as said:
            held.rollback()

    holder = rf"{pid} \(a report, idle in transaction, \d+ s\)"
    assert re.fullmatch(rf"00\d\d_\w+ waits for these transactions to end: {holder}", said)


def test_the_one_that_migrates_already_is_named(fresh, waiting):
    with psycopg.connect(fresh.url, application_name="a release", autocommit=True) as held:
        pid, lock = held.info.backend_pid, (module.LOCK_SPACE, fresh.schema)
        held.execute("select pg_advisory_lock(%s, hashtext(%s))", lock)
        with waiting() as said:
            held.execute("select pg_advisory_unlock(%s, hashtext(%s))", lock)

    holder = rf"{pid} \(a release, idle, \d+ s\)"
    assert re.fullmatch(rf"Another migration goes on, by {holder}", said)


LEFT = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'procession'
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
async def test_one_that_is_ended_leaves_no_session_behind(fresh, command, number, status):
    with psycopg.connect(fresh.url, autocommit=True) as held:
        held.execute("begin isolation level repeatable read; select 1")
        migrating = await command("procession", "migrate", DATABASE_URL=fresh.url)
        await migrating.until("waits for these transactions to end")
        migrating.send(number)
        assert await migrating.ended() == status
        with psycopg.connect(fresh.url, autocommit=True) as conn:
            async with asyncio.timeout(10):
                while True:
                    if conn.execute(LEFT).fetchone() == (0,):
                        break
                    await asyncio.sleep(0.1)


POOLER = """
[databases]
{name} = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {free}
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = options
unix_socket_dir =
"""


def listens(port):
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def pooled(fresh, tmp_path):
    """Starts pgbouncer before the database, in one of its modes."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer on this machine")
    started = []

    def start(mode):
        known = psycopg.conninfo.conninfo_to_dict(fresh.url)
        with socket.create_server(("127.0.0.1", 0)) as bound:
            free = bound.getsockname()[1]
        given = {name: known[name] for name in ("host", "port", "user")}
        text = POOLER.format(name=known["dbname"], free=free, mode=mode, **given)
        text += "user = postgres\n" if os.geteuid() == 0 else ""  # root it refuses
        (tmp_path / "b.ini").write_text(text)
        tmp_path.chmod(0o755)
        started.append(subprocess.Popen([program, "-q", str(tmp_path / "b.ini")]))
        until = time.monotonic() + 10
        while not listens(free):
            assert time.monotonic() < until
            time.sleep(0.05)
        return Database(f"postgresql://{known['user']}@127.0.0.1:{free}/{known['dbname']}")

    yield start
    for one in started:
        one.terminate()
        one.wait()


def test_a_pooler_that_hands_sessions_around_is_refused(fresh, pooled):
    with pytest.raises(MigrationError, match=r"hands sessions around \(transaction mode\)"):
        migrate(pooled("transaction"))

    assert migrate(fresh)


def test_a_pooler_that_keeps_them_apart_is_as_good_as_none(fresh, pooled):
    assert migrate(pooled("session"))
    assert migrate(fresh) == []


def test_what_was_left_half_made_is_made_anew(fresh, monkeypatch):
    with monkeypatch.context() as first:
        first.setattr(module, "migrations", lambda: [m for m in migrations() if m.version <= FIRST])
        migrate(fresh)
    with psycopg.connect(fresh.conninfo, autocommit=True) as conn:
        conn.execute("create index run_succeeded_age on run (id)")
        conn.execute(
            "update pg_index set indisvalid = false"
            " where indexrelid = 'run_succeeded_age'::regclass"
        )
        migrate(fresh)

        (kept,) = conn.execute(
            "select pg_get_indexdef('run_succeeded_age'::regclass) where not exists"
            " (select from pg_index where not indisvalid)"
        ).fetchone()
    assert "(completed_at)" in kept


def test_no_index_is_made_on_a_table_that_is_in_use_but_beside_the_work():
    made, locking = set(), []
    for one in migrations():
        if one.version > FIRST:
            locking += [
                f"{one.version:04}_{one.name}: {table}"
                for table in re.findall(r"create (?:unique )?index \w+\s+on (\w+)", one.sql)
                if table in made
            ]
        made |= set(re.findall(r"create table (\w+)", one.sql, re.IGNORECASE))

    assert locking == []


PUBLISHED = 22  # what a later one drops goes a release after something has taken its place


def test_no_migration_drops_what_an_earlier_one_made():
    dropped = [
        f"{one.version:04}_{one.name}: {name}"
        for one in migrations()
        if one.version > PUBLISHED
        for name in re.findall(r"drop \w+(?: concurrently)?(?: if exists)? (\w+)", one.sql)
        if not re.search(rf"create [^;]*\b{name}\b", one.sql)
    ]

    assert dropped == []
