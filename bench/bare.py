"""Bare Procrastinate draining empty tasks, as its documentation sets it up.

usage: bare.py URL COUNT CONCURRENCY. Prints one JSON row. The database is this run's own.
"""

import asyncio
import json
import sys
import time

import procrastinate
import psycopg
from meter import Meter, wait_quiet

OPEN = """
    select exists (select from procrastinate_jobs where status in ('todo', 'doing'))
"""


async def main(url: str, count: int, concurrency: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    seen, first, done = 0, 0.0, asyncio.Event()

    @app.task(name="empty")
    async def empty(number: int) -> None:  # noqa: ARG001 — a job has arguments
        nonlocal seen, first
        first = first or time.perf_counter()
        seen += 1
        if seen >= count:
            done.set()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, 1000):
            numbers = range(start, min(count, start + 1000))
            await empty.batch_defer_async(*({"number": one} for one in numbers))
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("vacuum analyze")
            conn.execute("checkpoint")
        wait_quiet()
        meter = Meter(url)
        worker = asyncio.create_task(
            app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
        )
        async with asyncio.timeout(120):
            await done.wait()
            with psycopg.connect(url, autocommit=True) as conn:
                while conn.execute(OPEN).fetchone()[0]:
                    await asyncio.sleep(0.01)
        seconds = time.perf_counter() - first
        costs = meter.stop(count)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    print(json.dumps({"per_second": round(count / seconds), **costs}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
