"""Entries under many sessions: who wins, what is locked first, and what a waiting save sees."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from fix_api import ARTICLE, add_workflow
from psycopg.errors import LockNotAvailable

from procession.engine.access import Actor, ActorKind
from procession.engine.change import Key
from procession.engine.content_type import parse_content_type
from procession.engine.errors import ConflictError, NotFoundError, VersionMismatchError
from procession.engine.precondition import Precondition
from procession.queue import content_types, entries
from procession.queue.audit import By
from procession.queue.start import Origin

KEY = Key("default", "Article", "a-1")
ORIGIN = Origin(Actor(kind=ActorKind.API_KEY, id="k", name="Key"))
ANYHOW = Precondition()
SESSIONS = 8


@pytest.fixture
async def article(conn):
    await content_types.save(conn, "default", "Article", parse_content_type(ARTICLE), By())


async def save(pool, data, wanted=ANYHOW, key=KEY):
    async with pool.connection() as conn:
        return await entries.put(conn, key, {"data": data}, wanted, ORIGIN)


async def at_once(work):
    """What came of the same work done by eight sessions that begin together."""
    barrier = asyncio.Barrier(SESSIONS)

    async def one(number):
        await barrier.wait()
        return await work(number)

    return await asyncio.gather(*(one(n) for n in range(SESSIONS)), return_exceptions=True)


@asynccontextmanager
async def meanwhile(pool, statement, values=()):
    """A session that has done this and not committed it; `until_waiting` sees who waits for it."""
    async with pool.connection() as conn, conn.transaction():
        await conn.execute(statement, values)
        yield conn


async def until_waiting(conn):
    """Return once a session of this database waits for a lock."""
    async with asyncio.timeout(10):
        while True:
            cursor = await conn.execute(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            if (await cursor.fetchone())[0]:
                return


@pytest.mark.usefixtures("article")
async def test_eight_sessions_that_create_one_entry_make_it_once(pool, conn):
    await add_workflow(conn, "Created")
    await add_workflow(conn, "Updated")

    saved = await at_once(lambda n: save(pool, {"Rank": n}))

    assert sorted(one.entry.version for one in saved) == list(range(1, SESSIONS + 1))
    assert Counter(one.fired.events for one in saved) == {("Created",): 1, ("Updated",): 7}
    assert sum(one.is_new for one in saved) == 1
    cursor = await conn.execute("select trigger, count(*) from run group by trigger order by 1")
    assert await cursor.fetchall() == [("Created", 1), ("Updated", 7)]
    cursor = await conn.execute("select count(*) from procrastinate_jobs")
    assert await cursor.fetchone() == (8,)


@pytest.mark.usefixtures("article")
@pytest.mark.parametrize("wanted", [{"is_new": True}, {"versions": frozenset({1})}])
async def test_of_eight_conditional_writes_one_wins(pool, conn, wanted):
    await add_workflow(conn, "Created", "Updated")
    if "versions" in wanted:
        await save(pool, {"Rank": -1})

    results = await at_once(lambda n: save(pool, {"Rank": n}, Precondition(**wanted)))

    assert Counter(type(one) for one in results) == {entries.Saved: 1, VersionMismatchError: 7}
    cursor = await conn.execute("select count(*) from run")
    assert await cursor.fetchone() == ((1 if "is_new" in wanted else 2),)


@pytest.mark.usefixtures("article")
async def test_eight_sessions_that_delete_one_entry_delete_it_once(pool, conn):
    await add_workflow(conn, "Deleted")
    await save(pool, {})

    async def delete(_):
        async with pool.connection() as one:
            return await entries.delete(one, KEY, ANYHOW, ORIGIN)

    results = await at_once(delete)

    assert Counter(type(one) for one in results) == {entries.Fired: 1, NotFoundError: 7}
    cursor = await conn.execute("select count(*) from run")
    assert await cursor.fetchone() == (1,)


@pytest.mark.usefixtures("article")
async def test_an_entry_is_locked_before_the_workflows_that_match(pool, conn):
    workflow = await add_workflow(conn, "Created", "Updated")
    await save(pool, {"Rank": 1})

    hold = "select from workflow where id = %s for update"
    async with asyncio.TaskGroup() as group, meanwhile(pool, hold, (workflow,)):
        saving = group.create_task(save(pool, {"Rank": 2}))
        await until_waiting(conn)
        with pytest.raises(LockNotAvailable):
            await conn.execute("select from entry for update nowait")

    assert saving.result().fired.events == ("Updated",)
    assert len(saving.result().fired.run_ids) == 1


@pytest.mark.usefixtures("article")
async def test_workflows_are_locked_in_the_order_of_their_ids(pool, conn):
    first, second = sorted([await add_workflow(conn, "Created") for _ in range(2)])

    hold = "select from workflow where id = %s for update"
    async with asyncio.TaskGroup() as group, meanwhile(pool, hold, (first,)):
        saving = group.create_task(save(pool, {}))
        await until_waiting(conn)
        await conn.execute("select from workflow where id = %s for update nowait", (second,))

    assert len(saving.result().fired.run_ids) == 2


NEXT_VERSION = """
    with raised as (
        update workflow set version = 2, name = 'Second' where id = %(id)s returning *
    ), versioned as (
        insert into workflow_version (tenant, workflow_id, version, definition)
        select version.tenant, workflow_id, 2,
               jsonb_set(definition::jsonb, '{name}', '"Second"')::json
        from workflow_version as version join raised on raised.id = workflow_id
        where version.version = 1
    )
    delete from workflow_trigger where workflow_id = %(id)s and event = any(%(less)s)
"""


@pytest.mark.usefixtures("article")
@pytest.mark.parametrize(
    ("change", "less", "runs"),
    [
        (NEXT_VERSION, ["Updated"], [("Created", 2, "Second")]),
        (NEXT_VERSION, ["Created"], []),
        ("update workflow set enabled = false where id = %(id)s", [], []),
        ("update workflow set deleted_at = now() where id = %(id)s", [], []),
    ],
)
async def test_a_save_that_waits_for_a_workflow_fires_what_became_of_it(
    pool, conn, change, less, runs
):
    workflow = await add_workflow(conn, "Created", "Updated")

    async with (
        asyncio.TaskGroup() as group,
        meanwhile(pool, change, {"id": workflow, "less": less}),
    ):
        group.create_task(save(pool, {}))
        await until_waiting(conn)

    cursor = await conn.execute("select trigger, workflow_version, workflow_name from run")
    assert await cursor.fetchall() == runs


@pytest.mark.usefixtures("article")
async def test_saves_of_different_entries_do_not_wait_for_one_another(pool, conn):
    await add_workflow(conn, "Created")

    async with pool.connection() as held, held.transaction():
        await entries.put(held, KEY, {"data": {}}, ANYHOW, ORIGIN)
        async with asyncio.timeout(5):
            saved = await save(pool, {}, key=Key("default", "Article", "a-2"))

    assert saved.is_new


@pytest.mark.usefixtures("article")
async def test_a_type_deleted_beside_a_save_either_goes_or_stays(pool, conn):
    async def deleted():
        async with pool.connection() as one:
            await content_types.delete(one, "default", "Article", By())

    async with pool.connection() as held, asyncio.TaskGroup() as group, held.transaction():
        await entries.put(held, KEY, {"data": {}}, ANYHOW, ORIGIN)
        deleting = group.create_task(_caught(deleted()))
        await until_waiting(conn)
    assert isinstance(deleting.result(), ConflictError)

    await conn.execute("delete from entry")
    drop = "delete from content_type where name = 'Article'"
    async with asyncio.TaskGroup() as group, meanwhile(pool, drop):
        saving = group.create_task(_caught(save(pool, {})))
        await until_waiting(conn)
    assert isinstance(saving.result(), NotFoundError)


async def _caught(work):
    try:
        return await work
    except (ConflictError, NotFoundError) as error:
        return error


@pytest.mark.usefixtures("article")
async def test_an_entry_recreated_beside_its_deletion_is_created(pool, conn):
    await save(pool, {"Rank": 1})

    async with pool.connection() as held, asyncio.TaskGroup() as group, held.transaction():
        await entries.delete(held, KEY, ANYHOW, ORIGIN)
        saving = group.create_task(save(pool, {"Rank": 2}))
        await until_waiting(conn)

    assert (saving.result().is_new, saving.result().fired.events) == (True, ("Created",))
