"""Signed webhooks, delivered and recorded, beside the same posts by a bare loop of the client.

usage: deliveries.py URL COUNT CONCURRENCY. Prints one JSON row. The database is this run's own; the
receiver is a process beside this one, which is set up as `procession worker` sets up its own. The
loop sends the bytes and headers of a real delivery over kept connections of httpx2, as many at a
time, and keeps nothing: no queue, no signature, no guard, no tries, no log.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import psycopg
import uvloop
from meter import Meter, wait_quiet
from setup import preload, prepare

from procession.actions.load import built_in, load
from procession.app.runner import Options, Runner
from procession.app.worker import collect_seldom
from procession.engine.workflow import ActionDefinition
from procession.outbound.guard import networks
from procession.outbound.http import Client, Rules
from procession.queue.pool import Database, make_pool
from procession.queue.types import Happened, Recorded

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = (
    b'{"event":"Created","tenant":"default","entryId":"a1","contentType":"Article",'
    b'"status":"Draft","data":{"Title":"One"},"createdAt":"2026-11-30T08:00:00Z",'
    b'"updatedAt":"2026-11-30T08:00:00Z"}'
)
HEADERS = {
    "Content-Type": "application/json; charset=utf-8",
    "Idempotency-Key": "5f0c1d2e8a4b4c6d9e0f112233445566-0",
    "X-Procession-Tenant": "default",
    "X-Procession-Run": "5f0c1d2e-8a4b-4c6d-9e0f-112233445566",
    "webhook-id": "0c03321d-8d09-5ccd-9085-bf0fd470f2b3",
    "webhook-timestamp": "1764547200",
    "webhook-signature": "v1,Zqx86THgEoAV0LM8UeLVyb3IFWf1GEsObU3m012Z+/w=",
}


def cpu() -> float:
    return sum(os.times()[:2])


async def posts(address: str, count: int, concurrency: int) -> dict[str, float]:
    """The bare loop."""
    left = iter(range(count))
    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx2.AsyncClient(limits=limits, trust_env=False) as client:

        async def send() -> None:
            for _ in left:
                answer = await client.post(address, content=BODY, headers=HEADERS)
                assert answer.status_code == 200

        began, used = time.perf_counter(), cpu()
        await asyncio.gather(*(send() for _ in range(concurrency)))
        seconds, used = time.perf_counter() - began, cpu() - used
    return {
        "posts_per_second": round(count / seconds),
        "posts_cpu_ms": round(1000 * used / count, 3),
    }


async def deliveries(url: str, address: str, count: int, concurrency: int) -> dict[str, float]:
    """The worker as it ships."""
    action = ActionDefinition(type="Webhook", parameters={"Url": address, "Secret": SECRET})
    preload(url, prepare(url, [action]), count, [action])
    wait_quiet()
    database = Database(url, pool_max=concurrency + 2, prefer_indexes=True)
    recorded, first, done, stop = 0, 0.0, asyncio.Event(), asyncio.Event()

    def tell(happened: Happened) -> None:
        nonlocal recorded, first
        first = first or time.perf_counter()
        if isinstance(happened, Recorded):  # the keeper tells from its own thread
            recorded += 1
        if recorded >= count:
            done.set()

    options = Options(database=database, concurrency=concurrency)
    registry = load(built_in(allow_insecure_signed_urls=True), [])
    rules = Rules(networks("127.0.0.0/8"))
    async with Client(rules) as client, make_pool(database) as pool:
        meter = Meter(url)
        runner = Runner(pool, options, registry, client, tell=tell)
        worker = asyncio.create_task(runner.run(stop))
        async with asyncio.timeout(300):
            await done.wait()
        seconds = time.perf_counter() - first
        costs = meter.stop(count)
        stop.set()
        await worker
    with psycopg.connect(url, autocommit=True) as conn:
        good = conn.execute("select count(*) from run where status = 'Succeeded'").fetchone()[0]
        logged = conn.execute("select count(*) from delivery").fetchone()[0]
    assert (good, logged) == (count, count), "something was lost"
    return {"per_second": round(count / seconds), **costs}


async def main(url: str, count: int, concurrency: int) -> None:
    receiver = subprocess.Popen(  # noqa: ASYNC220  it is there before anything is measured
        [sys.executable, str(Path(__file__).parent / "receiver.py")], stdout=subprocess.PIPE
    )
    try:
        address = f"http://127.0.0.1:{int(receiver.stdout.readline())}/hook"
        row = await deliveries(url, address, count, concurrency)
        row |= await posts(address, count, concurrency)
    finally:
        receiver.kill()
        receiver.wait()
    row["beyond_cpu_ms"] = round(row["client_cpu_ms"] - row["posts_cpu_ms"], 3)
    print(json.dumps(row))


if __name__ == "__main__":
    collect_seldom()
    uvloop.run(main(sys.argv[1], *map(int, sys.argv[2:4])))
