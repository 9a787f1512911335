"""The row that says of each worker that it lives, and what it serves."""

from dataclasses import dataclass
from uuid import UUID

from procession.engine.run import DOCUMENT_FORMAT
from procession.queue.leases import SyncConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process, as the others see it."""

    id: UUID
    release: str
    types: tuple[str, ...]
    claims: bool  # False where the runner is switched off


# One that was away begins to live anew: what went on meanwhile it has not seen.
BEAT = """
    insert into worker (id, release, document_format, action_types, claims)
    values (%(id)s, %(release)s, %(format)s, %(types)s, %(claims)s)
    on conflict (id) do update set heartbeat_at = clock_timestamp(),
        started_at = case when worker.heartbeat_at < clock_timestamp() - interval '15 seconds'
                          then clock_timestamp() else worker.started_at end
"""
LEAVE = """
    delete from worker where id = %(id)s
"""


def beat(conn: SyncConnection, worker: Worker) -> None:
    """Say that this worker lives."""
    conn.execute(
        BEAT,
        {
            "id": worker.id,
            "release": worker.release,
            "format": DOCUMENT_FORMAT,
            "types": list(worker.types),
            "claims": worker.claims,
        },
    )


def leave(conn: SyncConnection, worker: Worker) -> None:
    """Say that it has ended."""
    conn.execute(LEAVE, {"id": worker.id})
