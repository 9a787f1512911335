"""Procession draining preloaded runs of empty actions: one worker as
`procession worker` runs it (on uvloop, with its metrics), but for its actions.

usage: ours.py URL RUNS ACTIONS CONCURRENCY. Prints one JSON row. The database is this run's own.
"""

import asyncio
import json
import sys
import time
from datetime import timedelta

import psycopg
import uvloop
from meter import Meter, wait_quiet
from setup import preload, prepare

from procession.actions import Action, Succeeded
from procession.actions.registry import Registry
from procession.app.metrics import Metrics, WorkerMetrics
from procession.app.runner import Options, Runner
from procession.app.worker import collect_seldom
from procession.engine.workflow import ActionDefinition
from procession.outbound.http import Client, Rules
from procession.queue.pool import Database, make_pool
from procession.queue.types import Happened, Recorded


class Empty(Action):
    """Does nothing, as the task it is compared with does nothing."""

    repeatable = True
    first = 0.0

    async def perform(self, context, parameters):
        Empty.first = Empty.first or time.perf_counter()
        return Succeeded()


async def main(url: str, runs: int, actions: int, concurrency: int) -> None:
    chain = [ActionDefinition(type="Empty") for _ in range(actions)]
    preload(url, prepare(url, chain), runs, chain)
    wait_quiet()
    database = Database(url, pool_max=concurrency + 2, prefer_indexes=True)
    recorded, done, stop = 0, asyncio.Event(), asyncio.Event()

    metrics = WorkerMetrics(Metrics(), ("Empty",))

    def tell(happened: Happened) -> None:
        nonlocal recorded
        metrics.heard(happened)
        if isinstance(happened, Recorded):  # the keeper tells from its own thread
            recorded += 1
        if recorded >= runs * actions:
            done.set()

    options = Options(
        database=database, concurrency=concurrency, backlog_every=timedelta(seconds=30)
    )
    async with Client(Rules()) as client, make_pool(database) as pool:
        meter = Meter(url)
        runner = Runner(pool, options, Registry({"Empty": Empty()}), client, tell=tell)
        worker = asyncio.create_task(runner.run(stop))
        async with asyncio.timeout(120):
            await done.wait()
        seconds = time.perf_counter() - Empty.first
        costs = meter.stop(runs * actions)
        stop.set()
        await worker
    with psycopg.connect(url, autocommit=True) as conn:
        good = conn.execute("select count(*) from run where status = 'Succeeded'").fetchone()[0]
        kept = conn.execute("select count(*) from attempt").fetchone()[0]
    assert (good, kept) == (runs, runs * actions), "something was lost"
    print(json.dumps({"per_second": round(runs * actions / seconds), **costs}))


if __name__ == "__main__":
    collect_seldom()
    uvloop.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
