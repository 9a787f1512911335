"""A verb for many runs, by a worker that has nothing else to do: asked for, then waited for.

usage: bulk.py URL RUNS. Each run has failed at the first of its two actions and has a history; all
are retried, then all are cancelled. Prints one JSON row for each verb. The database is this run's
own.
"""

import asyncio
import json
import sys
import time

import psycopg
import uvloop
from meter import wait_quiet
from setup import prepare

from procession.actions.registry import Registry
from procession.app.runner import Options, Runner
from procession.engine.bulk import Order, Verb
from procession.engine.workflow import ActionDefinition, OnFailure
from procession.outbound.http import Client, Rules
from procession.queue import bulk
from procession.queue.audit import By
from procession.queue.bulk import Chosen
from procession.queue.pool import Database, make_pool

FAILED = """[
    {"status": "Failed", "attempts": 5, "failures": 5, "error": "The receiver answered 503.",
     "response_status": 503, "retryable": true, "completed_at": "2026-11-30T08:00:00Z"},
    {"status": "Skipped", "halted_by": 0, "error": "An earlier action halted the run.",
     "completed_at": "2026-11-30T08:00:00Z"}]"""
PRELOAD = """
    with failed as (
        insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                         entry_id, trigger, created_at, completed_at, status, actions)
        select 'default', gen_random_uuid(), %(workflow)s, 1, 'Bench', 'Article', 'a1', 'Created',
               now() - number * interval '1 s', now(), 'Failed', %(actions)s
        from generate_series(1, %(count)s) as number
        returning tenant, id
    )
    insert into attempt (tenant, run_id, ordinal, position, number, outcome, finished_at, error)
    select tenant, id, 0, number, number, 'Retried', now(), 'The receiver answered 503.'
    from failed cross join generate_series(1, 5) as number
"""


def preload(url: str, count: int) -> None:
    """So many runs that have failed."""
    halting = ActionDefinition(type="Empty", on_failure=OnFailure.HALT)
    workflow = prepare(url, [halting, ActionDefinition(type="Empty")])
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(PRELOAD, {"workflow": workflow, "actions": FAILED, "count": count})
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")


async def main(url: str, runs: int) -> None:
    preload(url, runs)
    wait_quiet()
    database = Database(url, pool_max=4, prefer_indexes=True)
    options = Options(database=database, enabled=False)
    stop = asyncio.Event()
    async with Client(Rules()) as client, make_pool(database) as pool:
        runner = Runner(pool, options, Registry({}), client)
        worker = asyncio.create_task(runner.run(stop))
        for verb in (Verb.RETRY, Verb.CANCEL):
            began = time.perf_counter()
            async with pool.connection() as conn:
                chosen = Chosen(status=verb.meant_for)
                asked = await bulk.ask(conn, "default", By(), Order(verb=verb), chosen)
                told = time.perf_counter() - began
                while (now := await bulk.one(conn, "default", asked.id)).finished_at is None:
                    await asyncio.sleep(0.1)
            seconds = time.perf_counter() - began
            assert (now.matched, now.changed, now.refused) == (runs, runs, {}), "some were left"
            row = {"verb": verb, "seconds": round(seconds, 1), "per_second": round(runs / seconds)}
            print(json.dumps({**row, "asked_ms": round(told * 1000)}), flush=True)
        stop.set()
        await worker


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
