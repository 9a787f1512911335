"""Writing what the engine decided: runs, their history, and the one job that each run calls for.

One statement serves an outcome, a rescue, a stop and a person's command. It writes nothing of a run
whose version is not the one that was decided on or, where a token is given, whose lease is not live
under it: the caller looks at the ids that come back, and decides anew for what is missing.
"""

from datetime import datetime
from uuid import UUID

from procession.engine.run import Step
from procession.engine.workflow import Definition
from procession.queue.deliveries import DELIVER, parameter
from procession.queue.pool import Connection
from procession.queue.step_row import Row, Seen, encode

OF_SAVED = "where exists (select from saved where saved.tenant = sent.tenant and saved.id = run_id)"

# One document instead of an array a column: to encode 27 arrays of 20 rows takes the worker 1.4 ms,
# and this 0.04, which Postgres reads in 0.13. The time to wait for a lock is said in the statement,
# which spares a round trip: Postgres reads it whenever it begins to wait. `queued` reads `ended`,
# so that the waiting job is gone before the next is made.
SAVE = """
    with step as materialized (
        select * from jsonb_to_recordset(%(rows)s::jsonb) as step (
            tenant text, id uuid, version integer, token bigint, status text, compensation text,
            completed_at timestamptz, cancelled_at timestamptz, abandoned_at timestamptz,
            held boolean, due_at timestamptz, due_ordinal integer, due_undo boolean, due_type text,
            due_attempt integer, actions jsonb, outputs jsonb, ordinal integer, undo boolean,
            number integer, outcome text, started_at timestamptz, finished_at timestamptz,
            response_status integer, error text, retryable boolean, duration_ms integer)
        where (select set_config('lock_timeout', coalesce(%(wait)s::text,
                                 current_setting('lock_timeout')), true)) is not null
        limit 20
    ), saved as (
        update run
        set version = run.version + 1, updated_at = clock_timestamp(), status = step.status,
            compensation = step.compensation, completed_at = step.completed_at,
            cancelled_at = step.cancelled_at, abandoned_at = step.abandoned_at,
            due_at = step.due_at, due_ordinal = step.due_ordinal, due_undo = step.due_undo,
            due_type = step.due_type, actions = step.actions,
            no_worker_since = case when step.due_type = run.due_type then run.no_worker_since end,
            outputs = coalesce(step.outputs, run.outputs),
            lease_token = case when step.held then run.lease_token end,
            lease_until = case when step.held then run.lease_until end,
            lease_worker = case when step.held then run.lease_worker end
        from step
        where run.tenant = step.tenant and run.id = step.id and run.version = step.version
          and (step.token is null
               or (run.lease_token = step.token and run.lease_until > clock_timestamp()))
        returning step.*
    ), noted as (
        insert into attempt (tenant, run_id, ordinal, undo, position, number, outcome, started_at,
                             finished_at, response_status, error, retryable, duration_ms)
        select tenant, id, ordinal, undo,
               1 + coalesce((select max(position) from attempt
                             where attempt.tenant = saved.tenant and attempt.run_id = saved.id
                               and attempt.ordinal = saved.ordinal and attempt.undo = saved.undo),
                            0),
               number, outcome, started_at, finished_at, response_status, error, retryable,
               duration_ms
        from saved where outcome is not null
        returning tenant, run_id, ordinal, undo, position
    ), dropped as (
        delete from attempt using noted
        where noted.position > 20 and attempt.tenant = any(array[noted.tenant])
          and attempt.run_id = any(array[noted.run_id])
          and attempt.ordinal = any(array[noted.ordinal])
          and attempt.undo = any(array[noted.undo]) and attempt.position <= noted.position - 20
    ), ended as (
        delete from procrastinate_jobs as job using saved
        where not saved.held
          and ((job.lock = 'run:' || saved.id and job.status = 'doing')
               or (job.queueing_lock = 'run:' || saved.id and job.status = 'todo'))
        returning job.id
    ), queued as (
        insert into procrastinate_jobs
               (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
        select tenant, 'attempt', 'run:' || id, 'run:' || id,
               jsonb_build_object('run', id, 'ordinal', due_ordinal, 'attempt', due_attempt), due_at
        from saved
        where due_at is not null and %(queues)s and (select count(*) from ended) >= 0
        on conflict (queueing_lock) where status = 'todo' do nothing
    )
    select id from saved
"""

# Apart from SAVE, so that attempts that send nothing pay nothing. Only for what is saved.
SAVE_AND_DELIVER = SAVE.replace(
    "    select id from saved\n",
    "    , delivered as (/* insert */)\n    select id from saved\n",
).replace("/* insert */", DELIVER.replace("/* which */", OF_SAVED))

AT_ONCE = 20  # rows of one statement; its limit says so to the planner, who would guess a hundred


def rows_of(
    encoded: list[bytes], wait: str | None = None, *, queues: bool = True
) -> dict[str, str | bool | None]:
    """The parameters of SAVE for these rows. They stand in the order that locks them."""
    return {"rows": "[" + b",".join(encoded).decode() + "]", "wait": wait, "queues": queues}


async def save(
    conn: Connection,
    encoded: list[bytes],
    deliveries: list[bytes] | None = None,
    *,
    wait: str | None = None,
    queues: bool = True,
) -> set[UUID]:
    """Write these rows, each as `encode` gave it, and return the ids of those that were written.

    Deliveries are logged with the rows of their runs. A lock is waited for as long as is said, or
    as the session has it. A caller who says so queues the jobs of what is due himself.
    """
    assert len(encoded) <= AT_ONCE, "the statement reads no more"
    rows = rows_of(encoded, wait, queues=queues)
    if deliveries:
        rows["deliveries"] = parameter(deliveries)
    cursor = await conn.execute(SAVE_AND_DELIVER if deliveries else SAVE, rows)
    return {id_ for (id_,) in await cursor.fetchall()}


# What a document takes of who reads it, as far as that can be told before: what is compressed may
# unpack to twenty times as much where it says the same again and again, and seldom to more.
WEIGHT = """pg_column_size(actions)
            * case when pg_column_compression(actions) is null then 1 else 20 end"""

MANY = 200  # rows of one statement, where nobody waits for its outcome
SAVE_MANY = SAVE.replace("limit 20\n", "limit 200\n")


async def save_many(conn: Connection, encoded: list[bytes]) -> set[UUID]:
    """The same for more rows. It is planned anew each time, for the tables that it has filled."""
    assert len(encoded) <= MANY, "the statement reads no more"
    cursor = await conn.execute(SAVE_MANY, rows_of(encoded), prepare=False)
    return {id_ for (id_,) in await cursor.fetchall()}


async def save_step(
    conn: Connection, seen: Seen, step: Step, definition: Definition, now: datetime
) -> bool:
    """Write one step in the caller's transaction; False when the run has moved on meanwhile."""
    return bool(await save(conn, [encode(Row.of(seen, step, definition, now))]))
