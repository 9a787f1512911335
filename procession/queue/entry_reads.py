"""Reading entries, with the content type that says who may see what of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from psycopg.rows import TupleRow

from procession.engine.change import Key
from procession.engine.content_type import ContentType, Sensitivity
from procession.engine.entry import Entry
from procession.queue.content_types import decoded
from procession.queue.pool import Connection
from procession.queue.runs import Span
from procession.queue.stored_entry import entry_in

ONE = """
    select definition::text, row_to_json(entry)::text
    from entry join content_type
      on content_type.tenant = entry.tenant and content_type.name = entry.content_type
    where entry.tenant = %(tenant)s and entry.content_type = %(content_type)s
      and entry.id = %(id)s
"""


async def one(conn: Connection, key: Key) -> tuple[Entry, ContentType] | None:
    row = await (await conn.execute(ONE, msgspec.structs.asdict(key))).fetchone()
    return None if row is None else (entry_in(row[1]), decoded(row[0]))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries of a tenant."""

    tenant: str
    content_type: str
    sensitivities: Sequence[Sensitivity]  # that the caller may read
    status: str | None = None  # in any case


@dataclass(frozen=True, slots=True)
class Listed:
    """Part of the entries, by id."""

    content_type: ContentType
    entries: list[Entry]
    total: int


PAGE = """
    with wanted as (
        select id from entry
        where tenant = %(tenant)s and content_type = %(content_type)s
          and sensitivity = any(%(sensitivities)s)
          and (%(status)s::text is null or lower(status) = lower(%(status)s))
    )
    select definition::text, (select count(*) from wanted), row_to_json(part)::text
    from content_type
    left join lateral (
        select entry.* from entry
        where entry.tenant = content_type.tenant and entry.content_type = content_type.name
          and entry.id in (select id from wanted order by id offset %(offset)s limit %(limit)s)
    ) as part on true
    where content_type.tenant = %(tenant)s and content_type.name = %(content_type)s
    order by part.id
"""


async def page(conn: Connection, wanted: Wanted, span: Span) -> Listed | None:
    """Part of the entries; None when there is no such content type."""
    values = {
        "tenant": wanted.tenant,
        "content_type": wanted.content_type,
        "sensitivities": [one.value for one in wanted.sensitivities],
        "status": wanted.status,
    }
    rows: list[TupleRow] = await (await conn.execute(PAGE, {**values, **span.values})).fetchall()
    if not rows:
        return None
    entries = [entry_in(row[2]) for row in rows if row[2] is not None]
    return Listed(decoded(rows[0][0]), entries, rows[0][1])
