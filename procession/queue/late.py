"""Outcomes that met a run which had moved on: to decide anew, already written, or too late.

A run that a newer release has written meanwhile is left alone: what this one does not know of the
document, it would drop.
"""

import logging
from datetime import datetime

from procession.engine.outcome import Outcome
from procession.engine.run import DOCUMENT_FORMAT, HistoryEntry, Run, Step, discard
from procession.queue.claim import run_of
from procession.queue.pool import Connection, Pool
from procession.queue.save import save_step
from procession.queue.step_row import Seen
from procession.queue.types import Claim

log = logging.getLogger(__name__)

LATEST = """
    select version, created_at, cancelled_at, abandoned_at, compensation, actions::text,
           outputs::text
    from run
    where tenant = %(tenant)s and id = %(id)s
      and lease_token = %(token)s and lease_until > clock_timestamp()
      and document_format <= %(format)s
"""


async def latest(conn: Connection, claim: Claim) -> tuple[Run, int] | None:
    """The run as it is now, with its version; None when the lease is gone."""
    held = {
        "tenant": claim.tenant.slug,
        "id": claim.id,
        "token": claim.token,
        "format": DOCUMENT_FORMAT,
    }
    cursor = await conn.execute(LATEST, held)
    row = await cursor.fetchone()
    return None if row is None else (run_of(row[1:]), row[0])


WRITTEN = """
    select from attempt
    where tenant = %(tenant)s and run_id = %(id)s and ordinal = %(ordinal)s and undo = %(undo)s
      and number = %(number)s and finished_at = %(finished_at)s
"""


async def is_written(conn: Connection, claim: Claim, step: Step) -> bool:
    """Whether a write whose answer was lost had been made after all."""
    cursor = await conn.execute(
        WRITTEN,
        {
            "tenant": claim.tenant.slug,
            "id": claim.id,
            "ordinal": claim.ordinal,
            "undo": claim.undo,
            "number": claim.action.attempts,
            "finished_at": step.history[0].finished_at,
        },
    )
    return bool(cursor.rowcount)


LOCK = """
    select version, completed_at, clock_timestamp(),
           created_at, cancelled_at, abandoned_at, compensation, actions::text, outputs::text
    from run
    where tenant = %(tenant)s and id = %(id)s and document_format <= %(format)s
    for no key update
"""


async def discard_late(pool: Pool, claim: Claim, outcome: Outcome, duration_ms: int) -> None:
    """Say in the log and, if that can be, in the history that an outcome came too late."""
    name = type(outcome).__name__
    log.warning("The outcome %s came after its lease, and is not applied", name)
    try:
        async with pool.connection() as conn:
            await note(conn, claim, outcome, duration_ms)
    except Exception as error:  # noqa: BLE001  whatever was made of the run by hand
        log.warning("A late outcome is not in the history: %s", type(error).__name__)


async def note(conn: Connection, claim: Claim, outcome: Outcome, duration_ms: int) -> None:
    """Say in the history that an outcome came too late. Nothing else of the run changes."""
    async with conn.transaction():
        named = {"tenant": claim.tenant.slug, "id": claim.id, "format": DOCUMENT_FORMAT}
        cursor = await conn.execute(LOCK, named)
        row = await cursor.fetchone()
        if row is None:
            return
        version, completed_at, now, *columns = row
        run = run_of(columns, completed_at)
        seen = Seen(tenant=claim.tenant.slug, id=claim.id, version=version, outputs=run.outputs)
        step = Step(run=run, history=(_entry(claim, outcome, duration_ms, now),))
        await save_step(conn, seen, step, claim.definition, now)


def _entry(claim: Claim, outcome: Outcome, duration_ms: int, now: datetime) -> HistoryEntry:
    return discard(
        claim.ordinal,
        claim.undo,
        claim.action.attempts,
        outcome,
        now=now,
        started_at=claim.action.started_at,
        duration_ms=duration_ms,
    )
