"""Queueing: runs and the first job of each, in the transaction of what they answer.

One statement for all the runs of a write, whatever their number; the engine says how each begins.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec
from msgspec import Struct
from psycopg.types.json import Json

from procession.engine.access import Actor
from procession.engine.entry import Event
from procession.engine.run import DOCUMENT_FORMAT, Action, RunStatus, due, status
from procession.engine.run import start as begin
from procession.engine.workflow import Definition
from procession.queue.ids import uuid7
from procession.queue.pool import Connection

_triggers: ContextVar[list[str] | None] = ContextVar("triggers", default=None)


@contextmanager
def noted() -> Generator[list[str]]:
    """The triggers of the runs that the block queues, to be told of once they are committed."""
    triggers: list[str] = []
    before = _triggers.set(triggers)
    try:
        yield triggers
    finally:
        _triggers.reset(before)


@dataclass(frozen=True, slots=True)
class Cause:
    """The run whose action, or undo, makes a change."""

    run_id: UUID
    depth: int
    max_depth: int  # of the runs that the change may queue


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made the change that runs answer, and what the request said of where it belongs."""

    actor: Actor
    correlation_id: str | None = None
    traceparent: str | None = None
    cause: Cause | None = None  # none of a change that a person or an application makes

    @property
    def depth(self) -> int:
        """Of the runs: how many runs led to each of them."""
        return 0 if self.cause is None else self.cause.depth + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be queued."""

    workflow_id: UUID
    workflow_version: int
    definition: Definition
    content_type: str
    entry_id: str
    trigger: str
    origin: Origin
    at: datetime  # when the change was made, by the database's clock
    transition: str | None = None
    started_by: Actor | None = None  # of a manual run
    event: int | None = None  # its number among the events that queue, from 0; none of a manual run
    id: UUID = field(default_factory=uuid7)


class Row(Struct, frozen=True, kw_only=True):
    """A run as it is written."""

    id: UUID
    workflow_id: UUID
    workflow_version: int
    workflow_name: str
    content_type: str
    entry_id: str
    trigger: str
    event: int | None
    details: Event
    started_by: Actor | None
    executor: str | None
    depth: int
    correlation_id: str | None
    traceparent: str | None
    status: RunStatus
    created_at: datetime
    completed_at: datetime | None
    due_at: datetime | None
    due_ordinal: int | None
    due_type: str | None
    actions: tuple[Action, ...]

    @classmethod
    def of(cls, new: NewRun) -> Self:
        """What the engine says of a run that begins."""
        run = begin(new.definition, new.at)
        first = due(run, new.definition, new.at)
        origin = new.origin
        return cls(
            id=new.id,
            workflow_id=new.workflow_id,
            workflow_version=new.workflow_version,
            workflow_name=new.definition.name,
            content_type=new.content_type,
            entry_id=new.entry_id,
            trigger=new.trigger,
            event=new.event,
            details=Event(actor=origin.actor, at=new.at, transition=new.transition),
            started_by=new.started_by,
            executor=new.definition.executor,
            depth=origin.depth,
            correlation_id=origin.correlation_id,
            traceparent=origin.traceparent,
            status=status(run),
            created_at=run.created_at,
            completed_at=run.completed_at,
            due_at=first and first.at,
            due_ordinal=first and first.ordinal,
            due_type=first and first.type,
            actions=run.actions,
        )


# The sequence is read in a CTE that others read, once for each event. A run whose id is there
# already (a manual one, asked for twice) is left as it is, and gets no job.
START = """
    with event as materialized (
        select number, nextval('event_sequence') as sequence
        from generate_series(0, %(events)s - 1) as number
    ), queued as (
        insert into run
               (tenant, id, workflow_id, workflow_version, workflow_name, content_type, entry_id,
                trigger, event_sequence, event, started_by, executor, depth, correlation_id,
                traceparent, status, created_at, updated_at, completed_at, due_at, due_ordinal,
                due_type, document_format, actions)
        select %(tenant)s, id, workflow_id, workflow_version, workflow_name, content_type, entry_id,
               trigger, coalesce(sequence, 0), details, started_by, executor, depth, correlation_id,
               traceparent, status, created_at, clock_timestamp(), completed_at, due_at,
               due_ordinal, due_type, %(document_format)s, actions
        from json_to_recordset(%(runs)s) as one
             (id uuid, workflow_id uuid, workflow_version int, workflow_name text,
              content_type text, entry_id text, trigger text, event int, details jsonb,
              started_by jsonb, executor text, depth int, correlation_id text, traceparent text,
              status text, created_at timestamptz, completed_at timestamptz, due_at timestamptz,
              due_ordinal int, due_type text, actions jsonb)
        left join event on event.number = one.event
        on conflict (tenant, id) do nothing
        returning tenant, id, due_at, due_ordinal
    ), reminded as (
        insert into procrastinate_jobs
               (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
        select tenant, 'attempt', 'run:' || id, 'run:' || id,
               jsonb_build_object('run', id, 'ordinal', due_ordinal, 'attempt', 1), due_at
        from queued
        where due_at is not null
    )
    select id from queued
"""


async def start(conn: Connection, tenant: str, new_runs: Sequence[NewRun]) -> list[UUID]:
    """Queue these runs; the ids of those that were not there yet, in the order given."""
    if not new_runs:
        return []
    rows = [Row.of(one) for one in new_runs]
    cursor = await conn.execute(
        START,
        {
            "tenant": tenant,
            "events": len({one.event for one in rows if one.event is not None}),
            "document_format": DOCUMENT_FORMAT,
            "runs": Json(rows, dumps=msgspec.json.encode),
        },
    )
    ids = {row[0] for row in await cursor.fetchall()}
    queued = [one for one in new_runs if one.id in ids]
    if (triggers := _triggers.get()) is not None:
        triggers += [one.trigger for one in queued]
    return [one.id for one in queued]
