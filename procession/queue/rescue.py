"""What the keeper of any worker ends: lapsed attempts, and runs whose workflow is switched off.

No leader is needed: rows are taken with SKIP LOCKED, a bounded number at a time, and each run is
decided on under its row's lock, so a second keeper finds nothing to do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import DataError, IntegrityError
from psycopg.errors import ProgramLimitExceeded

from procession.engine.commands import stop
from procession.engine.run import DOCUMENT_FORMAT, Run, Step, lose
from procession.engine.workflow import Definition
from procession.queue.claim import definition_of, run_of
from procession.queue.leases import SyncConnection
from procession.queue.save import AT_ONCE, SAVE, WEIGHT, rows_of
from procession.queue.step_row import Row, Seen, encode
from procession.queue.types import Rescued, Stopped
from procession.queue.unread import Unread


def bounded(found: LiteralString) -> LiteralString:
    """The first of what a statement finds, of large documents no more than there is time for.

    There may be a body in each action that waits: twenty of them take longer to write than the
    leases of this worker may wait to be renewed, and more than Postgres reads at once.
    """
    bound = """
    with found (tenant, id, version, definition, now, due_type, created_at, cancelled_at,
                abandoned_at, compensation, actions, outputs) as materialized (/* found */
    ), sized as (
        select weighed.*, sum(weight) over (rows unbounded preceding) - weight as before
        from (select found.*, /* weight */ as weight from found) as weighed
    )
    select tenant, id, version, definition, now, due_type, created_at, cancelled_at, abandoned_at,
           compensation, actions::text, outputs::text
    from sized where before < %(large)s
"""
    return bound.replace("/* found */", found).replace("/* weight */", WEIGHT)


# `now()`, since an index is not asked by a clock that moves, and these wait for no lock. A newer
# document is left to the workers that know it.
LAPSED = bounded("""
    select run.tenant, run.id, run.version, used.definition::text, clock_timestamp(),
           run.due_type, run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions, run.outputs
    from run
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    where run.lease_token is not null and run.lease_until < now()
      and run.document_format <= %(format)s and run.id <> all(%(unread)s)
    order by run.lease_until
    limit %(limit)s
    for no key update of run skip locked
""")
# A tenant's first before another's second, so that many of one do not hold up the rest. Of each
# workflow no more are looked at than may be taken, by id: no index has them as they are due.
SWITCHED_OFF = bounded("""
    with found as materialized (
        select run.tenant, run.id, run.due_at,
               row_number() over (partition by run.tenant order by run.due_at, run.id) as place
        from workflow cross join lateral (
            select run.tenant, run.id, run.due_at from run
            where run.tenant = workflow.tenant and run.workflow_id = workflow.id
              and run.completed_at is null and run.due_at <= now()
              and run.executor is null and run.document_format <= %(format)s
              and run.id <> all(%(unread)s)
            order by run.id limit %(limit)s
        ) as run
        where not workflow.enabled
    ), turn as materialized (
        select tenant, id from found order by place, due_at, id limit %(limit)s
    )
    select run.tenant, run.id, run.version, used.definition::text, clock_timestamp(),
           run.due_type, run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions, run.outputs
    from turn cross join lateral (
        select * from run
        where run.tenant = turn.tenant and run.id = turn.id
          and coalesce(run.due_at <= now(), false) and run.document_format <= %(format)s
        for no key update of run skip locked
    ) as run
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
""")

LARGE = 16_000_000  # bytes of documents, by their weight, behind which no other is begun
LARGEST = 64_000_000  # and of rows, as they are sent

BATCHES = 10  # that one call asks for, if none of a batch can be read or written

Decide = Callable[[Run, Definition, datetime, str | None], Step]  # of the type that is due


@dataclass(frozen=True, slots=True)
class Decided:
    """A run as it was and as it is to be, and the row that says so."""

    tenant: str
    id: UUID
    before: Run
    step: Step
    row: bytes


def rescue(conn: SyncConnection, limit: int = AT_ONCE) -> list[Rescued]:
    """End attempts whose lease has lapsed."""
    decided = decide_each(conn, LAPSED, limit, lambda run, used, now, _: lose(run, used, now=now))
    return [Rescued(*one) for one in decided]


def stop_switched_off(conn: SyncConnection, limit: int = AT_ONCE) -> list[Stopped]:
    """Cancel the rest of due runs whose workflow is switched off."""
    decided = decide_each(conn, SWITCHED_OFF, limit, lambda run, _, now, __: stop(run, now=now))
    return [Stopped(*one) for one in decided]


def decide_each(
    conn: SyncConnection, statement: LiteralString, limit: int, decide: Decide
) -> list[tuple[str, UUID, Step]]:
    """Lock runs, decide on each and write them, in one transaction; those that this changed.

    Where nothing is to be done after all, the row had said of the document what it does not hold,
    and is put right.
    """
    for _ in range(BATCHES):
        with conn.transaction():
            found = conn.execute(statement, _wanted(limit)).fetchall()
            written = _written(conn, list(_decided_on(found, decide)))
        if written or not found:
            changed = [one for one in written if one.step.run is not one.before]
            return [(one.tenant, one.id, one.step) for one in changed]
    return []


def _wanted(limit: int) -> dict[str, object]:
    unread = _unread.ids()
    return {"limit": limit, "format": DOCUMENT_FORMAT, "unread": unread, "large": LARGE}


def _written(conn: SyncConnection, decided: list[Decided]) -> list[Decided]:
    """Those of them that could be written: a number, or the whole, may be too large, say."""
    if not decided:
        return []
    try:
        with conn.transaction():
            conn.execute(SAVE, rows_of([one.row for one in decided]))
    except (DataError, IntegrityError, ProgramLimitExceeded) as error:
        if len(decided) == 1:
            _unread.add(decided[0].id, error)
            return []
        return [written for one in decided for written in _written(conn, [one])]
    for one in decided:
        _unread.drop(one.id)
    return decided


def _decided_on(found: list[tuple[Any, ...]], decide: Decide) -> Iterator[Decided]:
    """Those of them that can be decided on, as far as one statement takes them."""
    size = 0
    for row in found:
        if size < LARGEST and (one := _decided(row, decide)) is not None:
            size += len(one.row)
            yield one


def _decided(row: tuple[Any, ...], decide: Decide) -> Decided | None:
    tenant, id_, version, text, now, due_type, *columns = row
    try:
        definition, run = definition_of(text), run_of(columns)
        step = decide(run, definition, now, due_type)
        seen = Seen(tenant=tenant, id=id_, version=version, outputs=run.outputs)
        encoded = encode(Row.of(seen, step, definition, now))
    except Exception as error:  # noqa: BLE001  whatever was made of it by hand; others go on
        _unread.add(id_, error)
        return None
    return Decided(tenant, id_, run, step, encoded)


_unread = Unread()
