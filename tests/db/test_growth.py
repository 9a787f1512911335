"""Plans made while the tables are nearly empty are not kept to once they are not."""

import asyncio
from dataclasses import replace

import psycopg
import pytest
from fix_queue import WANTED

from procession.engine.outcome import Succeeded
from procession.queue import growth
from procession.queue.claim import claim
from procession.queue.growth import look
from procession.queue.pending import Ended, Pending, write
from procession.queue.pool import make_pool

TABLES = ("run", "procrastinate_jobs", "attempt")
KNOWN = "select reltuples > 2000 from pg_class where oid = 'run'::regclass"
PREPARED = "select name, cardinality(parameter_types) from pg_prepared_statements"


@pytest.fixture
def unattended(database):
    """The tables as autovacuum leaves them between two visits, each analysed with a row or none."""
    with psycopg.connect(database.url, autocommit=True) as conn:
        for table in TABLES:
            conn.execute(f"alter table {table} set (autovacuum_enabled = off)")
        yield conn
        for table in TABLES:
            conn.execute(f"alter table {table} reset (autovacuum_enabled)")
            conn.execute(f"analyze {table}")


@pytest.fixture
async def pool_of_a_worker(database):
    only_one = replace(database, prefer_indexes=True, pool_min=1, pool_max=1)
    async with make_pool(only_one) as pool:
        yield pool


async def works(pool):
    """An attempt, from its claim to its outcome."""
    async with pool.connection() as conn:
        (taken,) = await claim(conn, WANTED, 1)
        pending = Pending(taken, Ended(Succeeded(), 1))
        pending.decide(taken.run, taken.version)
        assert await write(conn, [pending], "1s")


async def read_whole(pool):
    """What the plans that are kept read from end to end, of the tables that grow."""
    found = set()
    async with pool.connection() as conn:
        prepared = await (await conn.execute(PREPARED, prepare=False)).fetchall()
        for name, count in prepared:
            nulls = ", ".join(["null"] * count)
            explain = f'explain (format json) execute "{name}" ({nulls})'
            ((plan,),) = await (await conn.execute(explain, prepare=False)).fetchall()
            found |= {one["Relation Name"] for one in reads(plan[0]["Plan"]) if is_whole(one)}
    return found & set(TABLES)


def reads(node):
    yield node
    for below in node.get("Plans", ()):
        yield from reads(below)


def is_whole(node):
    return node["Node Type"].startswith("Index") and "Index Cond" not in node


async def burst(made, conn, count=3000):
    """Many runs at once, counted as they are once their transaction has been told of."""
    await made.queue(count)
    await conn.execute("select pg_stat_force_next_flush()")


@pytest.mark.usefixtures("unattended")
async def test_what_was_planned_for_a_row_is_planned_anew_once_there_are_many(
    conn, make, pool_of_a_worker
):
    made = await make("Safe")
    await made.queue(1)
    await conn.execute("vacuum (analyze) run, procrastinate_jobs, attempt")
    await made.queue(6)
    for _ in range(7):
        await works(pool_of_a_worker)
    await burst(made, conn)
    assert await read_whole(pool_of_a_worker) == {"run", "procrastinate_jobs"}

    assert set(await look(conn)) >= {"procrastinate_jobs", "run"}

    await works(pool_of_a_worker)
    assert await read_whole(pool_of_a_worker) == set()
    await conn.execute("select pg_stat_force_next_flush()")
    assert await look(conn) == []


@pytest.mark.usefixtures("unattended")
async def test_a_worker_has_postgres_look_at_what_grows(conn, make, worked, monkeypatch):
    monkeypatch.setattr(growth, "EVERY", 0.05)
    made = await make("Safe")
    await conn.execute("vacuum (analyze) run, procrastinate_jobs, attempt")
    async with worked.working(enabled=False):
        await burst(made, conn)
        async with asyncio.timeout(10):
            while not (await (await conn.execute(KNOWN)).fetchone())[0]:
                continue


@pytest.mark.usefixtures("unattended")
async def test_what_is_anothers_is_left_alone(conn, make):
    await conn.execute("vacuum (analyze) run, procrastinate_jobs, attempt")
    await burst(await make("Safe"), conn)
    async with conn.transaction(force_rollback=True):
        await conn.execute("create role somebody")
        await conn.execute("set local role somebody")

        assert await look(conn) == []
