"""How fast a sweep removes finished runs with their history, and its longest transaction.

usage: sweep.py URL COUNT. Prints one JSON row. A tenth of the runs has failed, and each run has a
history of two attempts.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

import psycopg
from setup import prepare

from procession.engine.workflow import ActionDefinition
from procession.queue.pool import Database, make_pool
from procession.queue.removal import Windows
from procession.queue.sweep import Swept, alone, sweep

RUNS = """
    with ended as (
        insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                         entry_id, trigger, status, created_at, completed_at, actions)
        select 'default', gen_random_uuid(), %(workflow)s, 1, 'Bench', 'Article', 'a' || number,
               'Created', case when number %% 10 = 0 then 'Failed' else 'Succeeded' end,
               now() - interval '100 days', now() - interval '99 days' + number * interval '1 ms',
               '[{"status": "Succeeded", "attempts": 1, "response_status": 200, "duration_ms": 12},
                 {"status": "Succeeded", "attempts": 1, "response_status": 200, "duration_ms": 12}]'
        from generate_series(1, %(count)s) as number
        returning tenant, id, created_at
    )
    insert into attempt (tenant, run_id, ordinal, position, number, outcome, started_at,
                         finished_at, response_status, duration_ms)
    select tenant, id, ordinal, 1, 1, 'Succeeded', created_at, created_at, 200, 12
    from ended, generate_series(0, 1) as ordinal
"""


async def measured(url: str) -> dict[str, float]:
    batches: list[float] = []
    async with make_pool(Database(url, prefer_indexes=True)) as pool, alone(pool) as conn:
        assert conn is not None, "nobody else sweeps here"
        execute: Callable[..., object] = conn.execute

        async def timed(*given: object) -> object:
            began = time.perf_counter()
            found = await execute(*given)
            batches.append(time.perf_counter() - began)
            return found

        conn.execute = timed
        counts, began = Swept(), time.perf_counter()
        await sweep(conn, Windows().removals, counts, to_the_end=True)
        took = time.perf_counter() - began
    runs = counts.total["succeededRuns"] + counts.total["failedRuns"]
    return {"runs_per_second": round(runs / took), "longest_ms": round(max(batches) * 1000)}


def main() -> None:
    url, count = sys.argv[1], int(sys.argv[2])
    workflow = prepare(url, [ActionDefinition(type="Webhook", parameters={"Url": "http://a"})])
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(RUNS, {"workflow": workflow, "count": count})
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
    print(json.dumps(asyncio.run(measured(url))))


if __name__ == "__main__":
    main()
