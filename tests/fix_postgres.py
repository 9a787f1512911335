"""A real Postgres for the tests: one server a test session, one migrated database a test process."""

import os
import uuid

import psycopg
import pytest
from psycopg import sql

from procession.queue.migrate import migrate
from procession.queue.pool import Database, make_pool


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_url():
    """The address of a server that the tests may make databases on."""
    return os.environ["PROCESSION_TEST_DATABASE_URL"]


@pytest.fixture(scope="session")
def database(postgres_url):
    """A migrated database of this test process's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    made = Database(psycopg.conninfo.make_conninfo(postgres_url, dbname=name), pool_max=12)
    migrate(made)
    yield made
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


EMPTY = """
    delete from attempt; delete from run; delete from procrastinate_jobs;
    delete from workflow_trigger; delete from workflow_version; delete from workflow;
    delete from entry; delete from content_type; delete from api_key; delete from role;
    alter table audit disable trigger audit_is_append_only; delete from audit;
    alter table audit enable trigger audit_is_append_only;
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
