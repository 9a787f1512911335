"""A run as it is kept: its columns, its documents, its definition and its history.

All of it is read in one statement, so that it agrees. What may not leave (parameters, tokens,
holders) is left out of the statement or dropped by `api`. Of a run whose documents cannot be read,
its columns are: it is listed with the others, and nobody decides on it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import LiteralString
from uuid import UUID

import msgspec
from msgspec import MsgspecError, Struct, ValidationError
from psycopg.rows import DictRow, dict_row

from procession.engine.access import Actor
from procession.engine.run import Action, Compensation, Due, HistoryOutcome, Run, RunStatus, due
from procession.engine.workflow import Definition
from procession.queue.pool import Connection
from procession.queue.unread import Unread


class Kept(Struct, frozen=True, kw_only=True):
    """One history entry, with its place in the list of its action."""

    ordinal: int
    undo: bool
    position: int  # from 1, those that were dropped included
    number: int
    outcome: HistoryOutcome
    started_at: datetime | None
    finished_at: datetime
    response_status: int | None
    error: str | None
    retryable: bool | None
    duration_ms: int | None


class StoredRun(Struct, frozen=True, kw_only=True):
    """A run as it is kept, with its definition, its history and the database's time."""

    id: UUID
    version: int
    workflow_id: UUID
    workflow_version: int
    workflow_name: str
    content_type: str
    entry_id: str
    trigger: str
    status: RunStatus
    compensation: Compensation | None
    depth: int
    executor: str | None
    started_by: Actor | None
    correlation_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    cancelled_at: datetime | None
    abandoned_at: datetime | None
    due_at: datetime | None
    due_ordinal: int | None
    due_undo: bool
    due_type: str | None
    lease_until: datetime | None
    document_format: int
    no_worker_since: datetime | None
    actions: tuple[Action, ...]
    outputs: dict[int, dict[str, str]]
    definition: Definition
    history: tuple[Kept, ...]
    now: datetime
    is_read: bool = True  # False: its documents cannot be, and stand empty here

    @property
    def due(self) -> Due | None:
        """What may be claimed next, and from when: of what is due already, as it is now."""
        if self.due_at is None or self.due_ordinal is None or self.due_type is None:
            return None
        written = Due(self.due_at, self.due_ordinal, undo=self.due_undo, type=self.due_type)
        if written.at > self.now or self.compensation is not None or not self.is_read:
            return written
        return due(self.run, self.definition, self.now) or written

    @property
    def run(self) -> Run:
        """The part that the engine decides on."""
        return Run(
            created_at=self.created_at,
            actions=self.actions,
            outputs=self.outputs,
            completed_at=self.completed_at,
            cancelled_at=self.cancelled_at,
            abandoned_at=self.abandoned_at,
            compensation=self.compensation,
        )

    @property
    def leased(self) -> bool:
        """Whether a worker holds it under a lease that has not lapsed."""
        return self.lease_until is not None and self.lease_until > self.now


DOCUMENTS = ("actions", "outputs", "definition", "history")

# A kept body is shown to nobody, and may be a megabyte an action. The size is that of the row as it
# is stored, so that nothing is unpacked for it; most runs are far below. Types are asked for, since
# one document that somebody has edited would end the statement, and the list with it.
SHOWN = """case when pg_column_size(run.actions) > 1000 and jsonb_typeof(run.actions) = 'array'
           then (
               select coalesce(jsonb_agg(
                   case when jsonb_typeof(one) <> 'object' then one
                        when jsonb_typeof(one -> 'undo') = 'object'
                            then one - 'body' #- '{undo,body}'
                        else one - 'body' end order by place), '[]')
               from jsonb_array_elements(run.actions) with ordinality as action (one, place)
           ) else run.actions end::text as actions"""

WHOLE = """
    select run.id, run.version, run.workflow_id, run.workflow_version, run.workflow_name,
           run.content_type, run.entry_id, run.trigger, run.status, run.compensation, run.depth,
           run.executor, run.started_by, run.correlation_id, run.created_at, run.updated_at,
           run.completed_at, run.cancelled_at, run.abandoned_at,
           run.due_at, run.due_ordinal, run.due_undo, run.due_type,
           run.lease_until, run.document_format, run.no_worker_since,
           run.actions::text, run.outputs::text, used.definition::text,
           (select coalesce(json_agg(row_to_json(attempt) order by position), '[]')::text
            from attempt where attempt.tenant = run.tenant and attempt.run_id = run.id) as history,
           clock_timestamp() as now
    from run
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    where run.tenant = %(tenant)s /* which */
"""
READ = WHOLE.replace("run.actions::text", SHOWN)  # not for who writes it again


def stored(row: DictRow) -> StoredRun:
    """The run of a row of READ, or what can be read of it."""
    try:
        return _whole(row)
    except (MsgspecError, RecursionError) as error:
        _unread.add(row["id"], error)
        return _converted({**row, **BLANK, "started_by": _actor(row["started_by"])})


BLANK: Mapping[str, object] = {
    "actions": (),
    "outputs": {},
    "definition": Definition(name="", trigger_content_types=(), trigger_events=(), actions=()),
    "history": (),
    "is_read": False,
}
_unread = Unread()


def _whole(row: DictRow) -> StoredRun:
    documents = {name: msgspec.json.decode(row[name]) for name in DOCUMENTS}
    found = _converted(row | documents)
    if len(found.actions) != len(found.definition.actions):
        raise ValidationError("its actions are not as many as its definition has")
    return found


def _converted(row: Mapping[str, object]) -> StoredRun:
    return msgspec.convert(row, StoredRun, str_keys=True)


def _actor(value: object) -> Actor | None:
    try:
        return msgspec.convert(value, Actor | None)
    except MsgspecError:
        return None


THE_ONE = "and run.id = %(id)s"
ONE = WHOLE.replace("/* which */", THE_ONE)
SHOWN_ONE = READ.replace("/* which */", THE_ONE)


async def one(conn: Connection, tenant: str, run_id: UUID) -> StoredRun | None:
    """The whole run, if the tenant has it."""
    return await _one(conn, ONE, tenant, run_id)


async def shown(conn: Connection, tenant: str, run_id: UUID) -> StoredRun | None:
    """The run without the bodies it keeps, if the tenant has it; never to be written again."""
    return await _one(conn, SHOWN_ONE, tenant, run_id)


async def _one(
    conn: Connection, statement: LiteralString, tenant: str, run_id: UUID
) -> StoredRun | None:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, {"tenant": tenant, "id": run_id})
        row = await cursor.fetchone()
    return None if row is None else stored(row)


SOME = WHOLE.replace("/* which */", "and run.id = any (%(ids)s) order by run.id")


async def some(conn: Connection, tenant: str, run_ids: Sequence[UUID]) -> list[StoredRun]:
    """Those of the runs that the tenant has, whole and by id."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(SOME, {"tenant": tenant, "ids": list(run_ids)})
        return [stored(row) async for row in cursor]
