"""What every attempt must repeat to the byte is kept before it is sent."""

import asyncio
import contextlib
import json
from datetime import timedelta
from uuid import UUID

import pytest
from fix_api import RING
from fix_queue import Heard, age, running
from fix_receiver import hang

from procession.actions.load import built_in, load
from procession.app.runner import Options, Runner
from procession.engine.workflow import ActionDefinition
from procession.queue import bodies as keeping
from procession.queue.acting import Acting
from procession.queue.bodies import Bodies
from procession.queue.leases import connection
from procession.queue.rescue import rescue
from procession.queue.start import Origin
from procession.queue.types import Recorded

TOKEN = 7


@pytest.fixture
def working(database, pool, make_client):
    """A worker that sends webhooks, for as long as the block lasts."""

    @contextlib.asynccontextmanager
    async def begun():
        heard = Heard()
        options = Options(database=database, grace=timedelta(), ring=RING)
        runner = Runner(pool, options, load(built_in(), []), make_client(), tell=heard)
        async with running(runner):
            yield heard

    return begun


def posts(url, nested):
    webhook = {"type": "Webhook", "parameters": {"Url": url}}
    if not nested:
        return ActionDefinition(**webhook)
    inner = {"Condition": "a == b", "ThenActions": "[]", "ElseActions": json.dumps([webhook])}
    outer = [{"type": "Conditional", "parameters": inner}]
    branch = {"Condition": "{{status}} == Draft", "ThenActions": json.dumps(outer)}
    return ActionDefinition(type="Conditional", parameters=branch)


@pytest.mark.parametrize("nested", [False, True])
async def test_an_attempt_that_was_lost_is_repeated_to_the_byte(  # noqa: PLR0913, PLR0917
    conn, database, make, working, receiver, nested
):
    receiver.will(hang)
    await (await make(posts(receiver.url(), nested))).queue()

    async with working() as heard:
        first = await receiver.next()
        await conn.execute("""update entry set data = '{"title": "Two"}', version = version + 1""")
        await age(conn, lease_until=60)
        with connection(database) as keeper:
            await asyncio.to_thread(rescue, keeper)
        again = await receiver.next()
        await heard.wait(Recorded)

    assert b"One" in first.body
    assert again.body == first.body
    assert again.headers["webhook-id"] == first.headers["webhook-id"]
    cursor = await conn.execute("select status, actions #>> '{0,body}' from run")
    assert await cursor.fetchone() == ("Succeeded", None)


@pytest.fixture
async def held(conn, make):
    """Twenty runs in flight, each as the attempt in it is known."""
    made = await make()
    for _ in range(20):
        await made.queue()
    await conn.execute(
        """update run set due_at = null, due_ordinal = null, due_type = null, status = 'Running',
                  lease_token = %s, lease_until = now() + interval '1 hour', lease_worker = %s,
                  actions = jsonb_set(actions, '{0,status}', '"Running"', true)""",
        [TOKEN, UUID(int=1)],
    )
    cursor = await conn.execute("select id from run order by id")
    return [Acting("default", id_, TOKEN, Origin(None)) for (id_,) in await cursor.fetchall()]


async def bodies_of(conn):
    cursor = await conn.execute("select actions #>> '{0,body}', version from run order by id")
    return await cursor.fetchall()


async def test_those_that_are_ready_together_are_kept_together(conn, pool, held):
    bodies = Bodies(pool)

    await asyncio.gather(
        *(bodies.keep(one, 0, f'"{number}"', undo=False) for number, one in enumerate(held))
    )

    kept = await bodies_of(conn)
    assert [body for body, _ in kept] == [f'"{number}"' for number in range(20)]
    cursor = await conn.execute("select count(distinct xmin::text) from run")
    assert await cursor.fetchone() == (1,)


async def test_no_more_large_ones_are_kept_together_than_there_is_time_for(
    conn, pool, held, monkeypatch
):
    monkeypatch.setattr(keeping, "LARGE", 6)
    bodies = Bodies(pool)

    await asyncio.gather(*(bodies.keep(one, 0, "body", undo=False) for one in held[:3]))

    assert [body for body, _ in await bodies_of(conn)][:4] == ["body", "body", "body", None]
    cursor = await conn.execute("select count(distinct xmin::text) from run")
    assert await cursor.fetchone() == (3,)  # with that of those which keep none


async def test_who_is_cut_off_leaves_the_others_to_keep_theirs(conn, pool, held):
    bodies, others = Bodies(pool), held[1:]
    first = asyncio.create_task(bodies.keep(held[0], 0, "x", undo=False))
    rest = [asyncio.create_task(bodies.keep(one, 0, "y", undo=False)) for one in others]
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.wait([first, *rest], timeout=10)

    kept = await bodies_of(conn)
    assert [body for body, _ in kept] == [None, *["y"] * len(others)]


async def test_what_was_lost_is_not_kept_and_what_is_locked_is_not_waited_for_long(
    conn, pool, held, caplog
):
    lost = Acting("default", held[0].run_id, TOKEN + 1, Origin(None))
    bodies = Bodies(pool)
    await bodies.keep(lost, 0, "x", undo=False)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from run where id = %s for update", [held[1].run_id])
        await bodies.keep(held[1], 0, "x", undo=False)

    assert {body for body, _ in await bodies_of(conn)} == {None}
    assert "What is sent cannot be kept before: its run is locked" in caplog.text


async def test_a_run_that_is_locked_keeps_no_other_body_from_being_kept(conn, pool, held):
    bodies, told = Bodies(pool), []

    async def keep(number, acting):
        await bodies.keep(acting, 0, "x", undo=False)
        told.append(number)

    async with pool.connection() as other, other.transaction():
        await other.execute("select from run where id = %s for update", [held[7].run_id])
        await asyncio.gather(*(keep(*one) for one in enumerate(held)))

    assert [body for body, _ in await bodies_of(conn)] == ["x"] * 7 + [None] + ["x"] * 12
    assert told[-1] == 7  # the others need not wait for it


async def test_a_run_that_is_locked_for_a_moment_keeps_its_body(conn, pool, held):
    bodies = Bodies(pool)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from run where id = %s for update", [held[7].run_id])
        keeping = asyncio.create_task(bodies.keep(held[7], 0, "x", undo=False))
        await bodies.keep(held[8], 0, "x", undo=False)

    await keeping

    assert [body for body, _ in await bodies_of(conn)][7:9] == ["x", "x"]


@pytest.mark.parametrize(
    ("odd", "why"), [("\0", "UntranslatableCharacter"), ("\ud800", "UnicodeEncodeError")]
)
async def test_a_body_that_cannot_be_kept_keeps_no_other_from_being_kept(  # noqa: PLR0913, PLR0917
    conn, pool, held, caplog, odd, why
):
    bodies = Bodies(pool)

    await asyncio.gather(
        *(bodies.keep(one, 0, odd if one is held[3] else "x", undo=False) for one in held)
    )

    assert [body for body, _ in await bodies_of(conn)] == ["x"] * 3 + [None] + ["x"] * 16
    assert caplog.text.count(f"cannot be kept before: {why}") == 1
