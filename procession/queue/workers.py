"""The row that says of each worker that it lives, and what it serves."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from procession.engine.catalogue import ActionType
from procession.engine.run import DOCUMENT_FORMAT
from procession.queue.leases import SyncConnection
from procession.queue.pool import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process, as the others see it."""

    id: UUID
    release: str
    types: tuple[str, ...]
    claims: bool  # False where the runner is switched off
    described: Mapping[str, ActionType] = field(default_factory=dict[str, ActionType])


# One that was away begins to live anew: what went on meanwhile it has not seen.
BEAT = """
    insert into worker (id, release, document_format, action_types, claims, described)
    values (%(id)s, %(release)s, %(format)s, %(types)s, %(claims)s, %(described)s)
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
            "described": Jsonb(msgspec.to_builtins(worker.described), dumps=_text),
        },
    )


def _text(described: object) -> str:
    """As JSON that Postgres takes, whatever a package says of itself."""
    text = json.dumps(described, ensure_ascii=False).replace(r"\u0000", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()  # half a surrogate pair becomes a question mark


def leave(conn: SyncConnection, worker: Worker) -> None:
    """Say that it has ended."""
    conn.execute(LEAVE, {"id": worker.id})


DESCRIBED = """
    select name, type::text
    from worker cross join jsonb_each(described) as known (name, type)
    where heartbeat_at > now() - interval '15 seconds' and name <> all(%(known)s)
    order by started_at
"""


async def described(conn: Connection, known: Collection[str]) -> dict[str, ActionType]:
    """What live workers say of the types that are not known here; the youngest worker's word."""
    found: dict[str, ActionType] = {}
    async for name, text in await conn.execute(DESCRIBED, {"known": list(known)}):
        with suppress(msgspec.DecodeError):  # of a release that says it otherwise
            found[name] = msgspec.json.decode(text, type=ActionType)
    return found
