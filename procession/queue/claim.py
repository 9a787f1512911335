"""Taking due runs: one statement picks them in tenant turn, leases them and marks their jobs.

A claim never waits for a lock and never takes more than it is asked for. The run's row decides; its
job is marked, whatever its lock says, and made where it is missing. What is written is what
`engine.run.claim` returns, of the action that is next at that moment.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from time import monotonic
from typing import Any
from uuid import UUID

from msgspec import json
from psycopg import DataError, IntegrityError

from procession.engine.content_type import ContentType
from procession.engine.entry import Event
from procession.engine.run import DOCUMENT_FORMAT, Action, Compensation, Run
from procession.engine.workflow import Definition
from procession.queue.pace import BOUNDS
from procession.queue.pool import Connection
from procession.queue.stored_entry import entry_in
from procession.queue.types import Claim, Tenant
from procession.queue.walk import NEXT_ORDINAL, NEXT_TYPE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What this worker takes."""

    worker: UUID
    types: tuple[str, ...]
    repeatable: tuple[str, ...]  # of the types, those that a second attempt does no harm by


# `turn` hops from tenant to tenant along the index, from the one after the last served and round
# to it again, and no further than the limit of `served` asks for. A tenant's quota is the slots
# divided by the tenants served, the first ones in turn taking what is left over: so no tenant gets
# a second slot while another waits for its first, and no row is locked that is not taken.
# Subselects where a join or an exists would do: those are turned around, to read every workflow of
# a tenant, or all jobs in doing with what vacuum has not removed of them; an order where any row
# would do, or all runs of a tenant are read for one that is due. The clock is the statement's: what
# went before it in its transaction may have waited for a lock. What is next is read from the row as
# it is locked, which may be newer than the one that was found.
CLAIM = """
    with recursive turn (tenant, due_at, wrapped) as (
        select %(after)s::text, null::timestamptz, false
        union all
        select coalesce(next.tenant, ''), next.due_at, turn.wrapped or next.tenant is null
        from turn left join lateral (
            select run.tenant, run.due_at from run
            where run.due_at is not null and run.tenant > turn.tenant
            order by run.tenant, run.due_at limit 1
        ) as next on true
        where not turn.wrapped or (next.tenant is not null and next.tenant <= %(after)s)
    ), served as materialized (
        select turn.tenant, row_number() over () as place
        from turn cross join lateral (
            select from run
            where run.tenant = turn.tenant
              and run.due_at is not null and run.due_at <= statement_timestamp()
              and run.executor is null and run.document_format <= %(format)s
              and pg_column_size(run.actions) <= %(largest)s
              and case when case when run.due_ordinal = 0 then run.due_type else (
                      select /* type */ from (select /* ordinal */ as ordinal offset 0) as next
                  ) end = any(%(types)s) then (
                  select enabled from workflow
                  where workflow.tenant = run.tenant and workflow.id = run.workflow_id) end
            order by run.due_at limit 1
        ) as something
        where turn.due_at <= statement_timestamp()
        limit %(slots)s
    ), head as materialized (
        select run.tenant, run.id, 'run:' || run.id as lock, next.ordinal, run.due_undo as undo,
               /* type */ as type, served.place,
               case when run.due_undo then array[next.ordinal::text, 'undo']
                    else array[next.ordinal::text] end as path
        from served cross join lateral (
            select run.* from run
            where run.tenant = served.tenant
              and run.due_at is not null and run.due_at <= statement_timestamp()
              and run.executor is null and run.document_format <= %(format)s
              and pg_column_size(run.actions) <= %(largest)s
              and case when case when run.due_ordinal = 0 then run.due_type else (
                      select /* type */ from (select /* ordinal */ as ordinal offset 0) as next
                  ) end = any(%(types)s) then (
                  select enabled from workflow
                  where workflow.tenant = run.tenant and workflow.id = run.workflow_id) end
              and (select job.id from procrastinate_jobs as job
                   where job.lock = 'run:' || run.id and job.status = 'doing') is null
              /* sound */
            order by run.due_at, run.id
            limit (select (%(slots)s - served.place + count(*)) / count(*) from served as every)
            for no key update of run skip locked
        ) as run cross join lateral (select /* ordinal */ as ordinal offset 0) as next
    ), leased as (
        update run
        set status = 'Running', version = run.version + 1, updated_at = statement_timestamp(),
            due_at = null, due_ordinal = null, due_undo = false, due_type = null,
            lease_until = statement_timestamp() + interval '15 seconds',
            lease_token = nextval('lease_token'), lease_worker = %(worker)s, no_worker_since = null,
            actions = jsonb_set(run.actions, head.path,
                (run.actions #> head.path) - 'next_attempt_at' || jsonb_build_object(
                    'status', 'Running', 'started_at', statement_timestamp(),
                    'attempts', coalesce((run.actions #> head.path -> 'attempts')::int, 0) + 1,
                    'repeatable', head.type = any(%(repeatable)s)))
        from head
        where run.tenant = head.tenant and run.id = head.id
        returning run.*, head.place, head.lock, head.ordinal, head.undo, head.type
    ), marked as (
        update procrastinate_jobs as job set status = 'doing', lock = leased.lock from leased
        where job.queueing_lock = leased.lock and job.status = 'todo'
    ), made as (
        insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, status)
        select tenant, 'attempt', lock, lock, jsonb_build_object('run', id, 'ordinal', ordinal),
               'doing'
        from leased
        where not exists (select from procrastinate_jobs as job
                          where job.queueing_lock = leased.lock and job.status = 'todo')
        on conflict (lock) where status = 'doing' do nothing
    )
    select tenant.slug, tenant.name, tenant.time_zone, tenant.currency, tenant.site_url,
           run.id, run.workflow_id, run.workflow_name, run.content_type, run.entry_id, run.trigger,
           run.event::text, run.depth, run.correlation_id, run.traceparent,
           used.definition::text, content_type.definition::text, row_to_json(entry)::text,
           run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions::text, run.outputs::text,
           run.version, run.ordinal, run.undo, run.type, run.lease_token, statement_timestamp()
    from leased as run
    join tenant on tenant.slug = run.tenant
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    left join entry on entry.tenant = run.tenant and entry.content_type = run.content_type
                   and entry.id = run.entry_id
    left join content_type on content_type.tenant = run.tenant
                          and content_type.name = run.content_type
    order by run.place, run.created_at, run.id
""".replace("/* ordinal */", NEXT_ORDINAL).replace("/* type */", NEXT_TYPE)


# One document that somebody has edited ends the statement. So that it holds up no other, those that
# it can be carried out on are picked then; this costs what no other claim should pay.
CAREFUL = CLAIM.replace(
    "/* sound */",
    """
              and run.version < 2147483647 and jsonb_typeof(run.actions) = 'array'
              and (select jsonb_typeof(next) = 'object'
                      and case jsonb_typeof(next -> 'attempts')
                          when 'number' then abs((next -> 'attempts')::numeric) < 1000000000
                          else next -> 'attempts' is null end
                   from (select case when run.due_undo then run.actions -> run.due_ordinal -> 'undo'
                                     else run.actions -> /* ordinal */ end) as due (next))
""".replace("/* ordinal */", NEXT_ORDINAL),
)


async def claim(
    conn: Connection, wanted: Wanted, slots: int, after: str = "", largest: int = BOUNDS[0]
) -> list[Claim]:
    """Lease as many due runs as there are slots, from the tenant after this one on."""
    asked = {"after": after, "slots": slots, "largest": largest, "format": DOCUMENT_FORMAT}
    types = {"types": list(wanted.types), "repeatable": list(wanted.repeatable)}
    values = asked | types | {"worker": wanted.worker}
    asked_at = monotonic()
    try:
        cursor = await conn.execute(CLAIM, values)
    except (DataError, IntegrityError):
        cursor = await conn.execute(CAREFUL, values)
    claims: list[Claim] = []
    for row in await cursor.fetchall():
        try:
            claims.append(_claimed(row, asked_at))
        except Exception:  # the others are not held up by it; its lease lapses
            log.exception("Run %s cannot be read", row[5])
    return claims


_actions = json.Decoder(tuple[Action, ...]).decode
_outputs = json.Decoder(dict[int, dict[str, str]]).decode
_event = json.Decoder(Event).decode
# The same few texts come with every claim of a workflow; a long one is decoded each time, so that
# what is kept stays small.
LONGEST_KEPT = 32_768
_definition = json.Decoder(Definition).decode
_content_type = json.Decoder(ContentType).decode
_definition_kept = lru_cache(maxsize=256)(_definition)
_content_type_kept = lru_cache(maxsize=256)(_content_type)


def definition_of(text: str) -> Definition:
    """The definition that this is the text of."""
    return _definition_kept(text) if len(text) <= LONGEST_KEPT else _definition(text)


def content_type_of(text: str | None) -> ContentType | None:
    """The content type that this is the text of."""
    if text is None:
        return None
    return _content_type_kept(text) if len(text) <= LONGEST_KEPT else _content_type(text)


def run_of(columns: Iterable[Any], completed_at: datetime | None = None) -> Run:
    """The run of these columns: three times, compensation, actions and outputs."""
    created_at, cancelled_at, abandoned_at, compensation, actions, outputs = columns
    return Run(
        created_at=created_at,
        completed_at=completed_at,
        cancelled_at=cancelled_at,
        abandoned_at=abandoned_at,
        compensation=Compensation(compensation) if compensation else None,
        actions=_actions(actions),
        outputs=_outputs(outputs),
    )


def _claimed(row: tuple[Any, ...], asked_at: float) -> Claim:
    return Claim(
        tenant=Tenant(slug=row[0], name=row[1], time_zone=row[2], currency=row[3], site_url=row[4]),
        id=row[5],
        workflow_id=row[6],
        workflow_name=row[7],
        content_type=row[8],
        entry_id=row[9],
        trigger=row[10],
        event=_event(row[11]),
        depth=row[12],
        correlation_id=row[13],
        traceparent=row[14],
        definition=definition_of(row[15]),
        defined=content_type_of(row[16]),
        entry=None if row[17] is None else entry_in(row[17]),
        run=run_of(row[18:24]),
        version=row[24],
        ordinal=row[25],
        undo=row[26],
        type=row[27],
        token=row[28],
        claimed_at=row[29],
        asked_at=asked_at,
    )
