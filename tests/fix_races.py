"""Races: several sessions start at one barrier, and what is left must be sound."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from fix_queue import jobs_that_differ, writing
from psycopg import AsyncConnection

from procession.engine.access import EVERYTHING, Actor, ActorKind
from procession.engine.errors import ConflictError
from procession.engine.run import Status, due, is_finished, running, status
from procession.queue.audit import By
from procession.queue.commands import Target
from procession.queue.leases import Held
from procession.queue.manual import Wish
from procession.queue.record import Recorder
from procession.queue.start import Origin
from procession.queue.stored_run import one

BY = By(Actor(kind=ActorKind.API_KEY, id="abcdefghijkl", name="tests"))
SPREAD = 0.004  # seconds between two starts, so that each may come first, last and in between

MANY = 1000
rounds = pytest.mark.parametrize(
    "rounds", [30, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)


def target(run_id):
    return Target("default", run_id, BY)


def wish(made, key="order-17", content_type=None):
    return Wish(
        tenant="default",
        workflow_id=made.id,
        entry_id="a1",
        content_type=content_type,
        key=key,
        by=BY,
        origin=Origin(BY.actor),
        capabilities=EVERYTHING,
    )


@dataclass
class Race:
    """Runs sides against each other, each on a session of its own."""

    conn: AsyncConnection
    sessions: list[AsyncConnection]
    recorder: Recorder
    random: Random = field(default_factory=lambda: Random(7))

    async def between(self, *sides):
        """What each side gave; of a refusal, its code. A side is a function of its session."""
        barrier = asyncio.Barrier(len(sides))

        async def run(side, session):
            await barrier.wait()
            await asyncio.sleep(self.random.random() * SPREAD)
            try:
                return await side(session)
            except ConflictError as refused:
                return refused.code

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            sessions = self.sessions[: len(sides)]
            tasks = [group.create_task(run(*one)) for one in zip(sides, sessions, strict=True)]
        return [task.result() for task in tasks]

    async def goes(self, rounds, once, *ways):
        """Each round goes one of these ways and leaves all sound; of many, one goes each way."""
        seen = Counter()
        for _ in range(rounds):
            seen[await once()] += 1
            assert await jobs_that_differ(self.conn) == []
            for (run_id,) in await (await self.conn.execute("select id from run")).fetchall():
                await sound(self.conn, run_id)
            for table in ("attempt", "run", "procrastinate_jobs"):
                await self.conn.execute(f"delete from {table}")
        assert set(seen) <= set(ways), seen
        assert rounds < MANY or set(seen) == set(ways), seen


async def sound(conn, run_id, tenant="default"):
    """The run as it is kept, which agrees with what the engine says of its document."""
    found = await one(conn, tenant, run_id)
    run = found.run
    assert found.status is status(run)
    first = due(run, found.definition, found.updated_at)
    said = (first.at, first.ordinal, first.undo, first.type) if first else (None, None, False, None)
    assert (found.due_at, found.due_ordinal, found.due_undo, found.due_type) == said
    assert (running(run) is not None) == (found.lease_until is not None)
    assert is_finished(run) == (first is None and found.lease_until is None)
    for ordinal, action in enumerate(run.actions):
        for undo, life in ((False, action), (True, action.undo)):
            if life is not None:
                told = [x for x in found.history if (x.ordinal, x.undo) == (ordinal, undo)]
                honest(life, told)
    return found


def honest(life, told):
    """Each attempt that ended has one entry, and what is Cancelled never went out."""
    ended = [one for one in told if one.outcome != "Discarded"]
    newest = life.attempts - (life.status is Status.RUNNING)
    dropped = told[0].position - 1 if told else 0
    numbers = [one.number for one in ended]
    assert numbers == list(range(newest - len(numbers) + 1, newest + 1))
    assert dropped or len(numbers) == newest
    if life.status is Status.CANCELLED and not dropped:
        assert {one.outcome for one in ended} <= {"Retried", "Failed", "Skipped"}


DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
OTHERS = """
    select from pg_stat_activity
    where datname = current_database() and pid = any(%s) and pid <> pg_backend_pid()
"""


async def deadlocks(conn):
    return (await (await conn.execute(DEADLOCKS)).fetchone())[0]


@contextlib.asynccontextmanager
async def opened(database, count):
    """So many sessions."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                await AsyncConnection.connect(database.conninfo, autocommit=True)
            )
            for _ in range(count)
        ]


async def told(conn, processes):
    """Wait until these sessions have ended, for each says then what it counted."""
    async with asyncio.timeout(10):
        while (await conn.execute(OTHERS, (processes,))).rowcount:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)


def recording(pool):
    return writing(Recorder(pool, Held()))


@pytest.fixture
async def race(database, pool, conn):
    """Eight sessions; the deadlock detector stays silent until they have ended."""
    before = await deadlocks(conn)
    async with recording(pool) as recorder, opened(database, 8) as sessions:
        yield Race(conn, sessions, recorder)
        processes = [one.info.backend_pid for one in sessions]
    await told(conn, processes)
    assert await deadlocks(conn) == before
