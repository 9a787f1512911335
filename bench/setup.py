"""Runs to measure with: a migrated database, one workflow, and as many runs of it as asked for."""

import sys
import uuid
from datetime import UTC, datetime

import msgspec
import psycopg

from procession.engine.workflow import ActionDefinition, Definition
from procession.queue.migrate import migrate
from procession.queue.pool import Database

WORKFLOW = """
    with kept as (
        insert into workflow (tenant, id, name) values ('default', %(id)s, 'Bench')
    ), defined as (
        insert into content_type (tenant, name, definition)
        values ('default', 'Article', '{"fields": {"Title": {}}, "lifecycle": {"statuses": ["Draft"]}}')
    ), triggered as (
        insert into workflow_trigger (tenant, content_type, event, workflow_id)
        values ('default', 'Article', 'Created', %(id)s), ('default', 'Article', 'Updated', %(id)s)
    )
    insert into workflow_version (tenant, workflow_id, version, definition)
    values ('default', %(id)s, 1, %(definition)s)
"""  # noqa: E501 — a document
ENTRY = """
    insert into entry (tenant, content_type, id, status, data, created_by, updated_by)
    values ('default', 'Article', 'a1', 'Draft', '{"Title": "One"}', %(actor)s, %(actor)s)
"""
ACTOR = '{"kind": "Control", "id": "bench", "name": "bench"}'
PRELOAD = """
    with queued as (
        insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                         entry_id, trigger, due_at, due_ordinal, due_type, actions)
        select 'default', gen_random_uuid(), %(workflow)s, 1, 'Bench', 'Article', 'a1', 'Created',
               now(), 0, %(type)s, %(actions)s
        from generate_series(1, %(count)s)
        returning tenant, id, due_at
    )
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
    select tenant, 'attempt', 'run:' || id, 'run:' || id,
           jsonb_build_object('run', id, 'ordinal', 0, 'attempt', 1), due_at
    from queued
"""


def prepare(url: str, actions: list[ActionDefinition]) -> uuid.UUID:
    """A migrated database with one workflow of these actions, and an entry."""
    migrate(Database(url))
    workflow = uuid.uuid4()
    definition = Definition(
        name="Bench",
        trigger_content_types=("Article",),
        trigger_events=("Created", "Updated"),
        actions=tuple(actions),
    )
    with psycopg.connect(url, autocommit=True) as conn:
        text = msgspec.json.encode(definition).decode()
        conn.execute(WORKFLOW, {"id": workflow, "definition": text})
        conn.execute(ENTRY, {"actor": ACTOR})
    return workflow


def preload(url: str, workflow: uuid.UUID, count: int, actions: list[ActionDefinition]) -> None:
    """So many runs that are due, on tables that are vacuumed and analysed."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            PRELOAD,
            {
                "workflow": workflow,
                "type": actions[0].type,
                "actions": "[" + ",".join("{}" for _ in actions) + "]",
                "count": count,
            },
        )
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")


def say(text: str) -> None:
    """A line for the person who waits; the rows are on standard output."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
