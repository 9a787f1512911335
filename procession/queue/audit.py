"""The audit log: one entry for each thing a person changed, in the transaction that changes it.

It is only ever added to; a trigger refuses everything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from procession.engine.access import Actor
from procession.queue.pool import Connection
from procession.queue.runs import Span


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


class Noted(Struct, frozen=True, kw_only=True):
    """An entry as it is kept."""

    id: UUID
    at: datetime
    action: str
    actor: Actor | None
    target_type: str
    target_id: str
    metadata: dict[str, object]
    ip: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Which entries of a tenant; what is None filters nothing. Both times are within."""

    action: str | None = None
    target_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def values(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in PIECES}


# Literal pieces and not "is null or": with those a prepared plan can use one index only.
PIECES: dict[str, LiteralString] = {
    "action": "and action = %(action)s",
    "target_id": "and target_id = %(target_id)s",
    "since": "and at >= %(since)s",
    "until": "and at <= %(until)s",
}


def narrowed(statement: LiteralString, sought: Sought) -> LiteralString:
    """The statement with its filters in their place."""
    pieces: list[LiteralString] = [
        PIECES[name] for name, value in sought.values.items() if value is not None
    ]
    return statement.replace("/* filters */", " ".join(pieces))


COUNT = "select count(*) from audit where tenant = %(tenant)s /* filters */"

PAGE = """
    select id, at, action, actor, target_type, target_id, metadata, ip from audit
    where tenant = %(tenant)s /* filters */
    order by at desc, id
    limit %(limit)s offset %(offset)s
"""


async def page(
    conn: Connection, tenant: str, sought: Sought, span: Span
) -> tuple[list[Noted], int]:
    """Part of the entries, the newest first, and how many there are."""
    wanted = {"tenant": tenant, **sought.values, **span.values}
    counted = await conn.execute(narrowed(COUNT, sought), wanted)
    (total,) = await counted.fetchone() or (0,)
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(narrowed(PAGE, sought), wanted)
        return [msgspec.convert(row, Noted) async for row in cursor], total
