"""What a save that queues a run costs beside the same rows written by hand and a bare defer.

usage: saves.py URL COUNT. Prints one JSON row. On one connection and in turn: an entry is saved as
the API saves it (its type, what is there, matching, the run and its job), and a transaction inserts
an entry and a run of the same columns and defers a job as Procrastinate documents it. The database
is this run's own.
"""

import asyncio
import json
import sys
import time
import uuid
from statistics import mean

import procrastinate
import psycopg
from meter import percentile, wait_quiet
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from setup import ACTOR, prepare

from procession.engine.access import Actor
from procession.engine.change import Key
from procession.engine.precondition import Precondition
from procession.engine.workflow import ActionDefinition
from procession.queue.entries import put
from procession.queue.pool import Connection, Database, make_pool
from procession.queue.start import Origin

SPARE = 50  # of each, first, and not counted
ORIGIN = Origin(actor=Actor(**json.loads(ACTOR)))


async def save(conn: Connection, number: int) -> None:
    """As the API does it."""
    key = Key(tenant="default", content_type="Article", id=f"ours-{number}")
    saved = await put(conn, key, {"data": {"Title": "One"}}, Precondition(), ORIGIN)
    assert len(saved.fired.run_ids) == 1


class Bare:
    """The same by hand: two inserts and a defer."""

    def __init__(self, conn: Connection, task: procrastinate.tasks.Task) -> None:
        self.conn = conn
        self.task = task.configure(connection=conn)
        self.rows: dict[str, dict[str, object]] = {}
        self.inserts: dict[str, sql.Composed] = {}

    async def learn(self) -> None:
        """Take the columns and values from what was saved last."""
        for table in ("entry", "run"):
            cursor = self.conn.cursor(row_factory=dict_row)
            await cursor.execute(
                sql.SQL("select * from {} order by id desc limit 1").format(sql.Identifier(table))
            )
            row = await cursor.fetchone()
            self.rows[table] = {
                name: Jsonb(one) if isinstance(one, dict | list) else one
                for name, one in row.items()
            }
            self.inserts[table] = sql.SQL("insert into {} ({}) values ({})").format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, row)),
                sql.SQL(", ").join(map(sql.Placeholder, row)),
            )

    async def save(self, number: int) -> None:
        run_id = uuid.uuid4()
        entry = {**self.rows["entry"], "id": f"bare-{number}"}
        run = {**self.rows["run"], "id": run_id, "entry_id": f"bare-{number}"}
        async with self.conn.transaction():
            await self.conn.execute(self.inserts["entry"], entry)
            await self.conn.execute(self.inserts["run"], run)
            await self.task.defer_async(run=str(run_id))


async def main(url: str, count: int) -> None:
    prepare(url, [ActionDefinition(type="Webhook", parameters={"Url": "http://127.0.0.1/"})])
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="bare")
    async def task(run: str) -> None: ...

    wait_quiet()
    ours: list[float] = []
    bare: list[float] = []
    async with app.open_async(), make_pool(Database(url)) as pool, pool.connection() as conn:
        by_hand = Bare(conn, task)
        await save(conn, -1)
        await by_hand.learn()
        for number in range(SPARE + count):
            for took, one in ((ours, save(conn, number)), (bare, by_hand.save(number))):
                began = time.perf_counter()
                await one
                took.append(1000 * (time.perf_counter() - began))
    with psycopg.connect(url) as conn:
        runs, jobs = (
            conn.execute(f"select count(*) from {table}").fetchone()[0]
            for table in ("run", "procrastinate_jobs")
        )
    assert runs == jobs == 1 + 2 * (SPARE + count), "something was not saved"
    ours, bare = ours[SPARE:], bare[SPARE:]
    print(
        json.dumps(
            {
                "p50_ms": round(percentile(ours, 0.5), 2),
                "p95_ms": round(percentile(ours, 0.95), 2),
                "mean_ms": round(mean(ours), 2),
                "bare_p50_ms": round(percentile(bare, 0.5), 2),
                "bare_p95_ms": round(percentile(bare, 0.95), 2),
                "bare_mean_ms": round(mean(bare), 2),
                "to_bare": round(percentile(ours, 0.5) / percentile(bare, 0.5), 3),
                "mean_to_bare": round(mean(ours) / mean(bare), 3),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
