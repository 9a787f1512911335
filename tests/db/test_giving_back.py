"""A worker that stops ends, though what it would give back cannot be written."""

import asyncio
from datetime import timedelta

from fix_queue import row

from procession.app import runner
from procession.queue import record
from procession.queue.pool import make_pool
from procession.queue.types import Claimed


async def test_a_stop_does_not_wait_for_a_database_that_is_gone(  # noqa: PLR0913, PLR0917
    conn, database, make, worked, monkeypatch, caplog
):
    monkeypatch.setattr(runner, "PATIENCE", 0.2)
    monkeypatch.setattr(record, "LAST", timedelta(seconds=0.2))
    await (await make("Safe")).queue()
    closing = []

    async with make_pool(database) as pool:

        class Ending:
            """Stops the worker and takes its database as soon as it has claimed something."""

            def __call__(self, happened):
                if isinstance(happened, Claimed):
                    ours.runner.working.stop()
                    ours.stop.set()
                    closing.append(asyncio.create_task(pool.close()))

        worked.heard = Ending()
        async with asyncio.timeout(10), worked.working(pool) as ours:
            await ours.task

    assert "Outcomes cannot be written: PoolClosed" in caplog.text
    assert worked.safe.seen == []
    assert await row(conn, "select count(*) from run where lease_token is not null") == (1,)
