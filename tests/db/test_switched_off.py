"""The runs of workflows that are switched off: whose are ended first."""

import asyncio

from procession.queue.rescue import stop_switched_off


async def test_a_tenant_with_many_switched_off_runs_holds_up_nobody(conn, kept, make):
    for tenant, count in (("acme", 30), ("zed", 2)):
        await (await make("Safe", tenant=tenant)).queue(count)
    await conn.execute("update workflow set enabled = false")

    stopped = await asyncio.to_thread(stop_switched_off, kept, 6)

    tenants = [one.tenant for one in stopped]
    assert (len(tenants), tenants.count("zed")) == (6, 2)
