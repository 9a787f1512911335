"""Rows that somebody edited by hand: what is wrong with one of them holds up no other."""

import asyncio

import pytest
from fix_queue import WANTED, age

from procession.queue import rescue as rescuing
from procession.queue.claim import claim
from procession.queue.rescue import rescue


async def row(conn, statement, *values):
    cursor = await conn.execute(statement, values)
    return await cursor.fetchone()


@pytest.fixture
def unread(monkeypatch):
    """Nothing is known to be unreadable."""
    monkeypatch.setattr(rescuing, "_unread", rescuing.Unread())


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("limit", [1, 20])
@pytest.mark.parametrize(
    ("name", "value"), [("failures", '"x"'), ("completed_at", "9"), ("attempts", "9999999999")]
)
async def test_runs_that_cannot_be_kept_are_left_and_said_once(  # noqa: PLR0913, PLR0917  a row of the table
    conn, kept, make, caplog, name, value, limit
):
    await (await make("Safe")).queue(3)
    await claim(conn, WANTED, 3)
    await age(conn, lease_until=16)
    odd = """update run set actions = jsonb_set(actions, array['0', %(name)s], %(value)s),
                            lease_until = lease_until - interval '1 s'
             where id in (select id from run order by id limit 2) returning id"""
    cursor = await conn.execute(odd, {"name": name, "value": value})
    left = {id_ for (id_,) in await cursor.fetchall()}

    rescued = [await asyncio.to_thread(rescue, kept, limit) for _ in range(3)]

    assert [len(some) for some in rescued] == [1, 0, 0]
    assert rescued[0][0].run_id not in left
    said_of = "Run {} cannot be read or written and is left as it is"
    said = [one.getMessage() for one in caplog.records]
    assert sorted(said) == sorted(said_of.format(id_) for id_ in left)
    assert await row(conn, "select count(*) from run where lease_token is not null") == (2,)


@pytest.mark.usefixtures("unread")
async def test_a_run_that_was_put_right_is_ended(conn, kept, make, monkeypatch):
    monkeypatch.setattr(rescuing, "LEFT", 0)
    await (await make("Safe")).queue()
    await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    await conn.execute("update run set outputs = '[]'")
    assert await asyncio.to_thread(rescue, kept) == []

    await conn.execute("update run set outputs = '{}'")

    assert len(await asyncio.to_thread(rescue, kept)) == 1
