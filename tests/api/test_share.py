"""One tenant's requests that wait hold no more than half of the connections."""

import asyncio
from dataclasses import replace

import pytest
from fix_api import RING, add_key, client_of, declare
from fix_races import opened

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.queue.pool import make_pool

FIRST = "/api/entries/Article/a-1"
WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
"""


@pytest.fixture
async def callers(database, conn, request):
    """Two tenants of a process with four connections."""
    single = replace(database, pool_max=4, connect_timeout=request.param)
    async with make_pool(single) as pool:
        catalogue = load(built_in(), []).catalogue()
        app = create_app(Services(pool=pool, ring=RING, catalogue=catalogue))
        tokens = [await add_key(conn, tenant) for tenant in ("acme", "other")]
        headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
        async with client_of(app, headers[0]) as acme, client_of(app, headers[1]) as other:
            yield acme, other


@pytest.fixture
async def locking(database):
    async with opened(database, 1) as (session,):
        yield session


async def kept_waiting(conn, acme, number):
    """Writes of an entry that somebody has locked; two of them have come to the database."""
    saves = [acme.put(FIRST, json={"data": {"Title": str(one)}}) for one in range(number)]
    tasks = [asyncio.create_task(save) for save in saves]
    async with asyncio.timeout(10):
        while (await (await conn.execute(WAITING)).fetchone())[0] < 2:
            await acme.get("/api/me")
    return tasks


@pytest.mark.parametrize("callers", [10], indirect=True)
async def test_a_tenant_whose_requests_wait_leaves_half_of_the_connections(callers, conn, locking):
    acme, other = callers
    await declare(acme)
    assert (await acme.put(FIRST, json={"data": {}})).status_code == 201

    async with locking.transaction():
        await locking.execute("select from entry where tenant = 'acme' for update")
        saves = await kept_waiting(conn, acme, 8)
        read = await asyncio.gather(*(other.get("/api/workflow-runs") for _ in range(8)))
        waiting = (await (await conn.execute(WAITING)).fetchone())[0]

    assert [one.status_code for one in read] == [200] * 8
    assert waiting == 2
    assert {one.status_code for one in await asyncio.gather(*saves)} == {200}


@pytest.mark.parametrize("callers", [1], indirect=True)
async def test_who_waits_for_its_share_too_long_is_to_try_again(callers, conn, locking):
    acme, _ = callers
    await declare(acme)
    assert (await acme.put(FIRST, json={"data": {}})).status_code == 201

    async with locking.transaction():
        await locking.execute("select from entry where tenant = 'acme' for update")
        saves = await kept_waiting(conn, acme, 2)
        refused = await acme.get("/api/workflow-runs")

    assert (refused.status_code, refused.json()["code"]) == (503, "database-unavailable")
    assert refused.headers["retry-after"] == "5"
    assert {one.status_code for one in await asyncio.gather(*saves)} == {200}
    assert (await acme.get("/api/workflow-runs")).status_code == 200
