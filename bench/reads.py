"""How long the API takes for each kind of read, on a database of many runs.

usage: reads.py URL [RUNS] [TIMES]. Prints one JSON row for each. The database is seeded (`seed.py`)
unless it has runs. The API is the real command in a process of its own, asked over HTTP by one
caller; what is asked for differs from request to request.
"""

import asyncio
import base64
import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx2
import psycopg
from meter import percentile
from seed import seed
from setup import say

from procession.queue.pool import Database

PORT = 18473
TOKEN = "token-of-the-bench-0123456789-0123456789"  # of a server that ends with this
SPARE = 3  # asked first and not counted
LIMIT = 200  # milliseconds, at the 95th percentile


@dataclass(frozen=True, slots=True)
class Read:
    """A kind of read, and what to ask for the next time."""

    name: str
    path: str
    vary: Callable[[], dict[str, object]] = field(default=dict)


@contextlib.asynccontextmanager
async def serving(url: str):
    """The API as it ships, and a caller of it."""
    environment = os.environ | {
        "DATABASE_URL": url,
        "SECRETS__KEYS": f"bench:{base64.b64encode(bytes(32)).decode()}",
        "CONTROL_TOKEN": TOKEN,
        "HOST": "127.0.0.1",
        "PORT": str(PORT),
        "LOG__LEVEL": "error",
    }
    command = (sys.executable, "-m", "procession", "api")
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Tenant": "default"}
    base = f"http://127.0.0.1:{PORT}"
    try:
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=60) as client:
            await ready(client)
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def ready(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                if (await client.get("/health/ready")).is_success:
                    return
            await asyncio.sleep(0.1)


def reads(url: str) -> list[Read]:
    """What is asked for, from what there is."""
    with psycopg.connect(url) as conn:
        workflows = [
            str(one)
            for (one,) in conn.execute(
                "select id from workflow where tenant = 'default' order by name, id"
            )
        ]
        ids = [
            str(one)
            for (one,) in conn.execute(
                "select id from run tablesample system (0.1) where tenant = 'default' limit 200"
            )
        ]
        (total,) = conn.execute("select count(*) from run where tenant = 'default'").fetchone()
    most, others = workflows[0], workflows[1:]
    now = datetime.now(UTC)

    def runs(name: str, **asked: object) -> Read:
        """A list; what can be called gives another value each time."""

        def vary() -> dict[str, object]:
            return {key: value() if callable(value) else value for key, value in asked.items()}

        return Read(name, "/api/workflow-runs", vary)

    def ago(most_days: float, least_days: float = 0) -> Callable[[], str]:
        def moment() -> str:
            return (now - timedelta(days=random.uniform(least_days, most_days))).isoformat()

        return moment

    def other() -> str:
        return random.choice(others)

    def entry() -> str:
        return f"e-{random.randrange(10_000)}"

    health = "/api/workflows/health"
    last = total // 50
    return [
        runs("list with statusCounts"),
        runs("list, pages 2 to 20", page=lambda: random.randint(2, 20)),
        runs("list, the last page", page=last),
        *(runs(f"status={one}", status=one) for one in STATUSES),
        runs("status=Failed, its last pages", status="Failed", page=lambda: last // 40),
        runs("workflowId, of half the runs", workflowId=most),
        runs("workflowId, others", workflowId=other),
        runs("workflowId of half the runs, status=Cancelled", workflowId=most, status="Cancelled"),
        runs("workflowId, status=Failed", workflowId=other, status="Failed"),
        runs("entryId", entryId=entry),
        runs("entryId, the one that changed most", entryId="e-0"),
        runs("entryId, contentType, status", entryId=entry, contentType="Page", status="Failed"),
        runs("contentType=Article, of most runs", contentType="Article"),
        runs("contentType=Notice, of a few runs", contentType="Notice"),
        runs("contentType=None, of no run", contentType="None"),
        runs("contentType, status", contentType="Page", status="PartiallyFailed"),
        runs("workflowId, contentType=Notice", workflowId=most, contentType="Notice"),
        runs("changedSince, all of it", changedSince="2020-01-01T00:00:00Z"),
        runs("changedSince, the middle", changedSince=ago(4, 2)),
        runs("changedSince, the last minutes", changedSince=ago(0.01)),
        runs("changedSince, the end", changedSince=lambda: datetime.now(UTC).isoformat()),
        runs("changedSince, workflowId of half the runs", changedSince=ago(90), workflowId=most),
        runs("changedSince, workflowId, others", changedSince=ago(90), workflowId=other),
        runs("changedSince, status=Failed", changedSince=ago(90), status="Failed"),
        runs("changedSince, status=Cancelled", changedSince=ago(90), status="Cancelled"),
        runs("changedSince, contentType=Notice", changedSince=ago(90), contentType="Notice"),
        runs("changedSince, entryId", changedSince=ago(90), entryId=entry),
        Read("one run", "/api/workflow-runs/{id}", lambda: {"id": random.choice(ids)}),
        Read("health, 50 workflows", health),
        Read("health, 100 workflows", health, lambda: {"pageSize": 100}),
        Read("health, the one of half the runs", health, lambda: {"pageSize": 1}),
    ]


STATUSES = ("Pending", "Running", "Succeeded", "Failed", "PartiallyFailed", "Cancelled")


async def measured(client: httpx2.AsyncClient, read: Read, times: int) -> dict[str, object]:
    took: list[float] = []
    size = 0
    for _ in range(SPARE + times):
        asked = read.vary()
        path = read.path.format(**asked)
        began = time.perf_counter()
        answer = await client.get(path, params={} if "{" in read.path else asked)
        took.append(1000 * (time.perf_counter() - began))
        answer.raise_for_status()
        size = len(answer.content)
    took = took[SPARE:]
    p95 = percentile(took, 0.95)
    return {
        "case": read.name,
        "p50_ms": round(percentile(took, 0.5), 1),
        "p95_ms": round(p95, 1),
        "bytes": size,
        "over": p95 > LIMIT,
    }


async def main(url: str, runs: int = 1_000_000, times: int = 40) -> None:
    if empty(url):
        seed(url, runs)
    async with serving(url) as client:
        for read in reads(url):
            say(read.name)
            print(json.dumps(await measured(client, read, times)), flush=True)


def empty(url: str) -> bool:
    """Whether there is no run, or not so much as the tables."""
    with psycopg.connect(Database(url).conninfo, autocommit=True) as conn:
        if conn.execute("select to_regclass('run') is null").fetchone()[0]:
            return True
        return conn.execute("select not exists (select from run)").fetchone()[0]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:4])))
