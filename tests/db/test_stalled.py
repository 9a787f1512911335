"""Somebody stands still: with a run locked, with the server, or in our own keeper."""

import asyncio
import contextlib
import threading
import time
from dataclasses import replace

import psycopg
import pytest
from fix_queue import WANTED, age, jobs_that_differ
from fix_races import opened

from procession.actions.registry import Registry
from procession.app.health import of_database
from procession.app.runner import Options, Runner
from procession.engine.outcome import Succeeded
from procession.queue.claim import claim
from procession.queue.leases import Held, renew
from procession.queue.pending import Ended
from procession.queue.pool import make_pool
from procession.queue.record import Recorder
from procession.queue.types import Claimed, Recorded

LOCK = "select from run where id = %s for no key update"


@contextlib.asynccontextmanager
async def locked(database, run_id):
    """Somebody has locked this run, and stands still."""
    async with opened(database, 1) as (session,), session.transaction():
        await session.execute("set local idle_in_transaction_session_timeout = 0")
        await session.execute(LOCK, [run_id])
        yield


async def test_a_locked_run_does_not_hold_up_the_renewal_of_the_others(conn, kept, make, database):
    await (await make("Safe")).queue(3)
    first, *others = claims = await claim(conn, WANTED, 3)
    await age(conn, lease_until=6)
    async with locked(database, first.id):
        left = await asyncio.wait_for(asyncio.to_thread(renew, kept, claims), 3)
        assert (left.gone, left.behind) == (set(), {first.token})
        cursor = await conn.execute("select id from run where lease_until - now() > '14 s'")
        assert {one for (one,) in await cursor.fetchall()} == {one.id for one in others}

    left = await asyncio.to_thread(renew, kept, claims)
    assert (left.gone, left.behind) == (set(), set())


async def test_a_locked_run_whose_lease_is_gone_is_gone(conn, kept, make, database):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    async with locked(database, taken.id):
        left = await asyncio.to_thread(renew, kept, [taken])

    assert (left.gone, left.behind) == ({taken.token}, set())


def test_what_is_passed_over_is_held_for_as_long_as_its_own_renewal_allows():
    held = Held()
    begun = held.renewed_at
    held.renewed(begun + 5, [7], [7])
    held.renewed(begun + 6, [7], [7])

    assert held._renewal.behind == {7: begun}  # noqa: SLF001  what `fence` goes by
    held.renewed(begun + 7, [7])
    assert held._renewal.behind == {}  # noqa: SLF001


async def test_a_locked_run_does_not_hold_up_the_outcomes_of_the_others(
    conn, pool, make, database, heard
):
    await (await make("Safe")).queue(4)
    first, *others = await claim(conn, WANTED, 4)
    recorder = Recorder(pool, Held(), heard)
    running = asyncio.create_task(recorder.run())
    async with locked(database, first.id):
        waiting = asyncio.create_task(recorder.record(first, Ended(Succeeded(), 1)))
        writing = [asyncio.create_task(recorder.record(o, Ended(Succeeded(), 1))) for o in others]
        async with asyncio.timeout(4):
            assert all(await asyncio.gather(*writing))
        assert not waiting.done()
        await asyncio.sleep(1)  # it is tried again, and waits again

    async with asyncio.timeout(4):
        assert await waiting
    assert len(heard.of(Recorded)) == 4
    assert await jobs_that_differ(conn) == []
    running.cancel()
    await asyncio.wait({running})


async def test_who_stands_still_in_a_transaction_gives_up_what_it_locked(conn, make, database):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as session:
        cursor = await session.execute("show idle_in_transaction_session_timeout")
        assert await cursor.fetchone() == ("5s",)
        await session.execute("set idle_in_transaction_session_timeout = '100ms'")
        await session.set_autocommit(False)
        await session.execute(LOCK, [taken.id])
        await asyncio.sleep(0.5)
        cursor = await conn.execute(LOCK, [taken.id])
        assert cursor.rowcount == 1
        await session.close()


class Breaking(tuple):
    """The types of a worker, which its keeper cannot read any more once it is told so."""

    __slots__ = ()
    broken = threading.Event()

    def __iter__(self):
        if self.broken.is_set() and threading.current_thread().name == "keeper":
            raise RuntimeError("planted")
        return super().__iter__()


async def test_a_keeper_that_breaks_ends_the_worker_and_what_it_holds(
    conn, make, worked, database, pool
):
    Breaking.broken.clear()
    await (await make("Safe")).queue(2)
    worked.safe.gate.clear()
    registry = Registry({"Safe": worked.safe})
    registry.types = Breaking(registry.types)
    runner = Runner(pool, Options(database=database), registry, worked._client, tell=worked.heard)  # noqa: SLF001
    task = asyncio.create_task(runner.run(asyncio.Event()))
    await worked.safe.begun.wait()

    Breaking.broken.set()
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(task, 12)  # the next beat is 5 s away; the grace alone is 25

    assert raised.group_contains(RuntimeError, match="planted")
    assert len(worked.safe.seen) == len(worked.heard.of(Claimed)) == 1
    cursor = await conn.execute("select count(*) from attempt")
    assert await cursor.fetchone() == (0,)


async def test_a_server_that_stands_still_is_told_in_time_each_time(frozen):
    passing, database = frozen
    async with make_pool(replace(database, pool_max=2)) as pool:
        assert await of_database(pool) == []
        passing.goes.clear()
        for _ in range(3):
            began = time.monotonic()
            assert await of_database(pool) == ["database"]
            assert time.monotonic() - began < 2.5
        passing.goes.set()
        for _ in range(3):
            if (reasons := await of_database(pool)) == []:
                break
        assert reasons == []
