"""Capabilities that a release gives to roles that were there before it."""

import asyncio

import pytest
from fix_api import add_tenant

from procession.engine.access import BUILT_IN, GRANTS
from procession.queue.grants import GRANT, grant

RULE = "run-workflows-1"


@pytest.fixture(autouse=True)
async def _roles(conn):
    await add_tenant(conn, "acme")
    await conn.execute(
        """insert into role (tenant, name, capabilities) values
           ('default', 'Maker', '{manage_workflows, read_entries}'),
           ('acme', 'Maker', '{manage_workflows}'),
           ('default', 'Reader', '{read_entries}'),
           ('default', 'Both', '{run_workflows, manage_workflows}'),
           ('default', 'All', '{*, manage_workflows}'),
           ('default', 'Viewer', '{manage_workflows}')"""
    )


async def held(conn):
    cursor = await conn.execute("select tenant, name, capabilities from role order by 1, 2")
    return {f"{tenant} {name}": held for tenant, name, held in await cursor.fetchall()}


async def test_own_roles_that_hold_the_old_one_are_given_the_new_one(conn):
    before = await held(conn)

    found = await grant(conn)

    assert sorted(found[RULE]) == [("acme", "Maker"), ("default", "Maker")]
    assert await held(conn) == before | {
        "default Maker": ["manage_workflows", "read_entries", "run_workflows"],
        "acme Maker": ["manage_workflows", "run_workflows"],
    }
    cursor = await conn.execute(
        "select tenant, action, actor, target_type, target_id, metadata, ip from audit order by 1"
    )
    said = {"name": "Maker", "added": ["run_workflows"], "removed": [], "rule": RULE}
    assert await cursor.fetchall() == [
        (tenant, "role.granted", None, "Role", "Maker", said, None)
        for tenant in ("acme", "default")
    ]


async def test_what_is_taken_away_later_stays_away(conn):
    await grant(conn)
    await conn.execute("update role set capabilities = '{manage_workflows}' where name = 'Maker'")
    await conn.execute(
        "insert into role (tenant, name, capabilities)"
        " values ('default', 'Later', '{manage_workflows}')"
    )

    assert await grant(conn) == {}

    after = await held(conn)
    assert [after[one] for one in ("default Maker", "acme Maker", "default Later")] == [
        ["manage_workflows"]
    ] * 3


async def test_who_looked_before_it_was_done_does_not_do_it_again(conn):
    (rule,) = GRANTS
    values = {"rule": rule.name, "gives": rule.gives, "holds": rule.holds, "built_in": []}
    await grant(conn)
    await conn.execute("update role set capabilities = '{manage_workflows}' where name = 'Maker'")

    assert await (await conn.execute(GRANT, values)).fetchall() == []
    assert (await held(conn))["acme Maker"] == ["manage_workflows"]


async def test_processes_that_start_at_once_give_it_once(conn, pool):
    async def start():
        async with pool.connection() as one:
            return await grant(one)

    await asyncio.gather(*(start() for _ in range(8)))

    assert (await held(conn))["default Maker"].count("run_workflows") == 1
    cursor = await conn.execute("select count(*) from audit")
    assert await cursor.fetchone() == (2,)


async def test_a_database_that_is_only_readable_lets_start_what_is_done(conn):
    await grant(conn)
    await conn.execute("set default_transaction_read_only = on")

    assert await grant(conn) == {}
    await conn.execute("reset default_transaction_read_only")


async def test_what_built_in_roles_hold_no_row_can_take(call, conn):
    """Their defaults are in the code, so that each start puts them back by having them."""
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Editor', '{}')"
    )
    editor = await call("Editor")

    assert set((await editor.get("/api/me")).json()["capabilities"]) == BUILT_IN["Editor"]
