"""What the keeper of any worker ends: lapsed attempts, and runs whose workflow is switched off.

No leader is needed: rows are taken with SKIP LOCKED, a bounded number at a time, and each run is
decided on under its row's lock, so a second keeper finds nothing to do.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from procession.engine.commands import stop
from procession.engine.run import DOCUMENT_FORMAT, Run, Step, lose
from procession.engine.workflow import Definition
from procession.queue.claim import definition_of, run_of
from procession.queue.leases import SyncConnection
from procession.queue.save import AT_ONCE, SAVE, Row, Seen, encode, rows_of
from procession.queue.types import Rescued, Stopped

# `now()`, since an index is not asked by a clock that moves, and these wait for no lock. A newer
# document is left to the workers that know it.
LAPSED = """
    select run.tenant, run.id, run.version, used.definition::text, clock_timestamp(),
           run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions::text, run.outputs::text
    from run
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    where run.lease_token is not null and run.lease_until < now()
      and run.document_format <= %(format)s
    order by run.lease_until
    limit %(limit)s
    for no key update of run skip locked
"""
SWITCHED_OFF = """
    select run.tenant, run.id, run.version, used.definition::text, clock_timestamp(),
           run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions::text, run.outputs::text
    from workflow
    join run on run.tenant = workflow.tenant and run.workflow_id = workflow.id
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    where not workflow.enabled and run.completed_at is null and run.due_at <= now()
      and run.executor is null and run.document_format <= %(format)s
    limit %(limit)s
    for no key update of run skip locked
"""

Decide = Callable[[Run, Definition, datetime], Step]


def rescue(conn: SyncConnection, limit: int = AT_ONCE) -> list[Rescued]:
    """End attempts whose lease has lapsed."""
    decided = decide_each(conn, LAPSED, limit, lambda run, used, now: lose(run, used, now=now))
    return [Rescued(*one) for one in decided]


def stop_switched_off(conn: SyncConnection, limit: int = AT_ONCE) -> list[Stopped]:
    """Cancel the rest of due runs whose workflow is switched off."""
    decided = decide_each(conn, SWITCHED_OFF, limit, lambda run, _, now: stop(run, now=now))
    return [Stopped(*one) for one in decided]


def decide_each(
    conn: SyncConnection, statement: LiteralString, limit: int, decide: Decide
) -> list[tuple[str, UUID, Step]]:
    """Lock runs, decide on each and write them, in one transaction."""
    with conn.transaction():
        wanted = {"limit": limit, "format": DOCUMENT_FORMAT}
        found = conn.execute(statement, wanted).fetchall()
        decided = [_decided(row, decide) for row in found]
        if decided:
            conn.execute(SAVE, rows_of([row for *_, row in decided]))
    return [(tenant, id_, step) for tenant, id_, step, _ in decided]


def _decided(row: tuple[Any, ...], decide: Decide) -> tuple[str, UUID, Step, bytes]:
    tenant, id_, version, text, now, *columns = row
    definition, run = definition_of(text), run_of(columns)
    step = decide(run, definition, now)
    seen = Seen(tenant=tenant, id=id_, version=version, outputs=run.outputs)
    return tenant, id_, step, encode(Row.of(seen, step, definition, now))
