"""The audit log: one entry for each thing a person changed, in the transaction that changes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

import msgspec
from psycopg.types.json import Jsonb

from procession.engine.access import Actor
from procession.queue.pool import Connection


@dataclass(frozen=True, slots=True)
class By:
    """Who makes a change, and from where."""

    actor: Actor | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What was done to what."""

    action: str
    target_type: str
    target_id: str
    metadata: Mapping[str, object]


NOTE = """
    insert into audit (tenant, id, action, actor, target_type, target_id, metadata, ip)
    values (%(tenant)s, %(id)s, %(action)s, %(actor)s, %(target_type)s, %(target_id)s,
            %(metadata)s, %(ip)s)
"""


async def note(conn: Connection, tenant: str, by: By, what: Note) -> None:
    """Write the entry. Beside the change itself, it needs the caller's transaction."""
    await conn.execute(
        NOTE,
        {
            "tenant": tenant,
            "id": uuid4(),
            "action": what.action,
            "actor": None if by.actor is None else Jsonb(by.actor, dumps=msgspec.json.encode),
            "target_type": what.target_type,
            "target_id": what.target_id,
            "metadata": Jsonb(dict(what.metadata), dumps=msgspec.json.encode),
            "ip": by.ip,
        },
    )
