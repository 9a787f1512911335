"""Runs in any state, written as they would stand after whatever brought them there."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from psycopg import sql
from psycopg.types.json import Json, Jsonb

from procession.engine.run import Action, Run, RunStatus, due, running, status
from procession.engine.workflow import ActionDefinition, Definition

EPOCH = datetime(2020, 11, 30, 8, tzinfo=UTC)
WEBHOOKS = Definition(
    name="Announce article",
    trigger_content_types=("Article",),
    trigger_events=("Published",),
    actions=(
        ActionDefinition(type="Webhook", parameters={"Url": "https://hooks.example.org/a"}),
        ActionDefinition(type="Webhook", parameters={"Url": "https://hooks.example.org/b"}),
    ),
)


def encoded(value):
    return Jsonb(value, dumps=msgspec.json.encode)


async def add_workflow(conn, definition=WEBHOOKS, *, tenant="default", enabled=True):
    """The id of a workflow at version 1."""
    workflow_id = uuid.uuid4()
    await conn.execute(
        "insert into tenant (slug, name) values (%s, %s) on conflict do nothing", (tenant, tenant)
    )
    await conn.execute(
        "insert into workflow (tenant, id, name, enabled) values (%s, %s, %s, %s)",
        (tenant, workflow_id, definition.name, enabled),
    )
    await conn.execute(
        "insert into workflow_version (tenant, workflow_id, version, definition)"
        " values (%s, %s, 1, %s)",
        (tenant, workflow_id, Json(definition, dumps=msgspec.json.encode)),
    )
    return workflow_id


def lease(run, *, live):
    if running(run) is None:
        return {}
    until = datetime.now(UTC) + timedelta(seconds=60 if live else -60)
    return {"lease_token": 1, "lease_until": until, "lease_worker": uuid.uuid4()}


def next_due(run, definition, now):
    one = due(run, definition, now)
    if one is None:
        return {}
    named = {"due_ordinal": one.ordinal, "due_undo": one.undo, "due_type": one.type}
    return {"due_at": one.at, **named}


async def add_run(
    conn, workflow_id, *actions, definition=WEBHOOKS, tenant="default", live=True, **columns
):
    """The id of a run whose actions stand so; with its job, where it calls for one."""
    actions = actions or tuple(Action() for _ in definition.actions)
    known = {
        name: columns[name]
        for name in ("cancelled_at", "abandoned_at", "compensation", "outputs")
        if name in columns
    }
    run = Run(created_at=columns.get("created_at", EPOCH), actions=actions, **known)
    stands = columns.get("status") or status(run)
    finished = stands not in {RunStatus.PENDING, RunStatus.RUNNING}
    row = {
        "tenant": tenant,
        "id": uuid.uuid4(),
        "workflow_id": workflow_id,
        "workflow_version": 1,
        "workflow_name": definition.name,
        "content_type": "Article",
        "entry_id": "a-17",
        "trigger": "Published",
        "created_at": run.created_at,
        "status": stands,
        "completed_at": run.created_at + timedelta(minutes=1) if finished else None,
        **lease(run, live=live),
        **({} if finished else next_due(run, definition, datetime.now(UTC))),
        **columns,
        "actions": encoded(actions),
        "outputs": encoded(run.outputs),
    }
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    values = sql.SQL(", ").join(map(sql.Placeholder, row))
    await conn.execute(sql.SQL("insert into run ({}) values ({})").format(names, values), row)
    await conn.execute(JOB, {"id": row["id"]})
    return row["id"]


JOB = """
    insert into procrastinate_jobs
           (queue_name, task_name, lock, queueing_lock, args, scheduled_at, status)
    select tenant, 'attempt', 'run:' || id, 'run:' || id, jsonb_build_object('run', id), due_at,
           case when lease_token is null then 'todo' else 'doing' end
             ::procrastinate_job_status
    from run where id = %(id)s and (due_at is not null or lease_token is not null)
"""


async def add_attempt(conn, run_id, position, *, tenant="default", **columns):
    row = {
        "tenant": tenant,
        "run_id": run_id,
        "ordinal": 0,
        "position": position,
        "number": position,
        "outcome": "Retried",
        "started_at": EPOCH,
        "finished_at": EPOCH + timedelta(milliseconds=212),
        **columns,
    }
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    values = sql.SQL(", ").join(map(sql.Placeholder, row))
    await conn.execute(sql.SQL("insert into attempt ({}) values ({})").format(names, values), row)


async def add_worker(conn, *types, claims=True, silent_for=0):
    await conn.execute(
        "insert into worker (id, release, document_format, action_types, claims, heartbeat_at)"
        " values (%s, '0', 1, %s, %s, now() - %s * interval '1 s')",
        (uuid.uuid4(), list(types), claims, silent_for),
    )


async def until_blocked(conn):
    """Wait until a session waits for a lock."""
    async with asyncio.timeout(5):
        while True:
            cursor = await conn.execute(
                "select from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            if cursor.rowcount:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
async def workflow_id(conn):
    return await add_workflow(conn)
