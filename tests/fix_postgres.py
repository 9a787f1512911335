"""A real Postgres for the tests: one server a test session, one migrated database a test process.

The server is one of its own in a temporary folder, shared by the processes of pytest-xdist, unless
PROCESSION_TEST_DATABASE_URL names another.
"""

import os
import shutil
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from procession.app.local import serve
from procession.queue.migrate import migrate
from procession.queue.pool import Database, make_pool


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


FOLDER = "PROCESSION_TEST_FOLDER"
FAST = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # the first process; those of pytest-xdist inherit it
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="procession-tests-")
        Path(os.environ[FOLDER]).chmod(0o755)  # as root, the server runs as another user


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url():
    """The address of a server that the tests may make databases on."""
    if url := os.environ.get("PROCESSION_TEST_DATABASE_URL"):
        yield url
    else:
        with serve(Path(os.environ[FOLDER]) / "postgres", FAST) as local:
            yield local.url


@contextmanager
def one_more(postgres_url):
    """A database with nothing in it, dropped when it is left."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield Database(urlsplit(postgres_url)._replace(path=f"/{name}").geturl(), pool_max=12)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def fresh(postgres_url):
    with one_more(postgres_url) as made:
        yield made


@pytest.fixture
def stranger(postgres_url):
    """The address of a database as a user has it who may connect, and no more."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    role = sql.Identifier(name)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("create role {} login password 'hunter2'").format(role))

    def known_as(database):
        parts = urlsplit(database.url)
        netloc = f"{name}:hunter2@{parts.netloc.rpartition('@')[2]}"
        return replace(database, url=parts._replace(netloc=netloc).geturl())

    yield known_as
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("drop role {}").format(role))


@pytest.fixture(scope="session")
def database(postgres_url):
    """A migrated database of this test process's own."""
    with one_more(postgres_url) as made:
        migrate(made)
        yield made


EMPTY = """
    delete from idempotency; delete from granting_rule;
    delete from delivery; delete from sweep; delete from swept; delete from backlog;
    delete from bulk; delete from procrastinate_periodic_defers;
    delete from attempt; delete from run; delete from procrastinate_jobs;
    delete from workflow_trigger; delete from workflow_version; delete from workflow;
    delete from entry; delete from content_type; delete from api_key; delete from role;
    alter table audit disable trigger audit_is_append_only; delete from audit;
    alter table audit enable trigger audit_is_append_only;
    delete from request_definition; delete from connector; delete from first_key;
    delete from fingerprint;
    delete from worker; delete from tenant where slug <> 'default';
"""


@pytest.fixture
async def pool(database):
    """An open pool on the database, empty but for the tenant `default`."""
    with psycopg.connect(database.conninfo, autocommit=True) as conn:
        conn.execute(EMPTY)
    async with make_pool(database) as opened:
        yield opened


@pytest.fixture
async def conn(pool):
    async with pool.connection() as one:
        yield one
