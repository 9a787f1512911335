"""What a process does with a database that it may not write to, from its first statement on."""

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import psycopg
import pytest
from psycopg import sql

from procession.app import health, start
from procession.app.health import Keys, of_database
from procession.app.start import ApartError, join, refusing, run, writing, written
from procession.queue import first_key
from procession.queue.pool import make_pool
from procession.queue.sealing import Ring

RING = Ring({"a": bytes(32)})


@pytest.fixture
def only_readable(database):
    """A database that can only be read by whoever connects from now on, until told otherwise."""

    def be(value):
        with psycopg.connect(database.url, autocommit=True) as conn:
            name = sql.Identifier(conn.info.dbname)
            change = "alter database {} set default_transaction_read_only = {}"
            conn.execute("set default_transaction_read_only = off")
            conn.execute(sql.SQL(change).format(name, sql.Literal(value)))

    be("on")
    yield partial(be, "off")
    be("off")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(start, "PAUSE", 0.01)


@pytest.fixture
def heard():
    """What is logged, as it is."""
    lines = asyncio.Queue()
    handler = logging.Handler()
    handler.emit = lambda record: lines.put_nowait(record.getMessage())
    root = logging.getLogger("procession")
    before = root.level
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    yield lines
    root.removeHandler(handler)
    root.setLevel(before)


async def noted(conn):
    return await (await conn.execute("select process from fingerprint")).fetchall()


@pytest.mark.usefixtures("impatient")
async def test_a_worker_waits_for_a_database_that_is_only_readable(
    conn, only_readable, database, heard
):
    async with make_pool(database) as pool, asyncio.timeout(30):
        begins = partial(join, pool, "public", "worker", RING)
        waiting = asyncio.create_task(written(begins, asyncio.Event()))
        said = await heard.get()
        assert await noted(conn) == []

        only_readable()

        assert await waiting
    assert said.startswith("The database is only readable, until somebody lets it be written to.")
    assert await noted(conn) == [("worker",)]


@pytest.mark.usefixtures("impatient", "conn", "only_readable")
async def test_a_stop_ends_the_wait_for_it(database):
    async with make_pool(database) as pool, asyncio.timeout(30):
        stop = asyncio.Event()
        stop.set()

        assert not await written(partial(join, pool, "public", "worker", RING), stop)


@pytest.mark.usefixtures("impatient")
async def test_an_api_goes_on_meanwhile_and_writes_later(conn, only_readable, database, heard):
    async with (
        asyncio.timeout(30),
        make_pool(database) as pool,
        writing(partial(join, pool, "public", "api", RING), asyncio.Event()),
    ):
        assert await of_database(pool) == []
        assert await noted(conn) == []

        only_readable()
        while await heard.get() != "The database can be written to":
            continue

    assert await noted(conn) == [("api",)]


@pytest.mark.usefixtures("impatient")
async def test_what_is_refused_later_asks_for_a_stop_and_is_raised():
    stop, tries = asyncio.Event(), iter([psycopg.errors.ReadOnlySqlTransaction, ApartError])

    async def write():
        raise next(tries)("elsewhere")

    with pytest.raises(ApartError):
        async with asyncio.timeout(30), writing(write, stop):
            await stop.wait()


async def test_a_session_that_was_refused_a_write_is_not_used_again(conn, only_readable, database):
    async with make_pool(replace(database, pool_max=1)) as pool:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await join(pool, "public", "worker", RING)
        only_readable()

        await join(pool, "public", "worker", RING)

    assert await noted(conn) == [("worker",)]


async def test_that_a_worker_lacks_the_key_of_the_api_is_logged_though_nobody_asks(
    pool, conn, heard, monkeypatch
):
    monkeypatch.setattr(health, "LOOKS", 0.01)
    await first_key.note(conn, RING.digest)

    async with asyncio.timeout(30), Keys(RING).watched(pool):
        await first_key.note(conn, bytes(32))
        said = await heard.get()

    assert said == "SECRETS__KEYS lacks the key that the API seals with, its first one"


@contextmanager
def granted_but(stranger, database, *tables):
    """A database whose user has every right but those on these tables."""
    limited = stranger(database)
    name = sql.Identifier(psycopg.conninfo.conninfo_to_dict(limited.url)["user"])
    with psycopg.connect(database.conninfo, autocommit=True) as owner:
        owner.execute(
            sql.SQL(
                "grant all on all tables in schema public to {}; grant usage on schema public"
                " to {}; grant all on all sequences in schema public to {}"
            ).format(name, name, name)
        )
        for table in tables:
            owner.execute(sql.SQL("revoke all on {} from {}").format(sql.Identifier(table), name))
        try:
            yield limited
        finally:
            owner.execute(sql.SQL("drop owned by {}").format(name))


@pytest.mark.usefixtures("conn")
@pytest.mark.parametrize("table", ["first_key", "schema_migration"])
async def test_rights_that_are_missing_are_a_reason_and_no_error(stranger, database, table):
    with granted_but(stranger, database, table) as limited:
        async with make_pool(limited) as pool:
            reasons = [*await of_database(pool), *await Keys(RING).reasons(pool)]

    assert reasons == ["schema"]


def test_rights_that_are_missing_end_a_command_in_a_line(stranger, database, capsys):
    async def work():
        async with make_pool(limited) as pool:
            await join(pool, "public", "api", RING)

    with (
        granted_but(stranger, database, "fingerprint") as limited,
        pytest.raises(SystemExit) as ended,
        refusing(),
    ):
        run(work())

    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "procession: The user of DATABASE_URL lacks a right (permission denied for table"
        " fingerprint): make it the owner of the schema and of what is in it, or grant it all on"
        " them.\n"
    )


@pytest.mark.parametrize("others", [[], [ValueError("a fault of ours")]])
def test_a_refusal_beside_something_else_is_one_unless_there_is_more_to_tell(capsys, others):
    """As an API and a worker in one process begin, in groups of tasks."""
    raised = ExceptionGroup("tasks", [ExceptionGroup("one", [ApartError("Elsewhere.")]), *others])

    with pytest.raises((SystemExit, ExceptionGroup)) as ended, refusing():
        raise raised

    if others:
        assert ended.value is raised
    else:
        assert ended.value.code == 2
        assert capsys.readouterr().err == "procession: Elsewhere.\n"
