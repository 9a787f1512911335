"""Content types: what the entries of a tenant may hold. A change touches no entry."""

from datetime import datetime

import msgspec
from msgspec import Struct
from psycopg.errors import ForeignKeyViolation
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from procession.engine.content_type import ContentType
from procession.engine.errors import ConflictError, NotFoundError
from procession.queue.audit import By, Note
from procession.queue.named import make_or_replace, part_of, remove, row_of
from procession.queue.pool import Connection
from procession.queue.runs import Span


class Kept(Struct, frozen=True, kw_only=True):
    """A content type as it is kept."""

    name: str
    definition: ContentType
    created_at: datetime
    updated_at: datetime


def _kept(row: DictRow) -> Kept:
    return msgspec.convert(row | {"definition": decoded(row["definition"])}, Kept)


def decoded(definition: str) -> ContentType:
    """The stored document of a content type."""
    return msgspec.json.decode(definition, type=ContentType)


# xmax is 0 in a row that this statement inserted. A definition that is there already gives no row.
SAVE = """
    insert into content_type as kept (tenant, name, definition)
    values (%(tenant)s, %(name)s, %(definition)s)
    on conflict (tenant, name) do update
    set definition = excluded.definition, updated_at = clock_timestamp()
    where kept.definition <> excluded.definition
    returning xmax = 0
"""


async def save(
    conn: Connection, tenant: str, name: str, definition: ContentType, by: By
) -> tuple[Kept, bool]:
    """Make it or replace it; and whether it is new. Saving what is there already does nothing."""
    document = Jsonb(definition, dumps=msgspec.json.encode)
    values = {"tenant": tenant, "name": name, "definition": document}
    async with conn.transaction():
        is_new = await make_or_replace(conn, SAVE, values, by, _noted("saved", name))
        kept = await one(conn, tenant, name)
    assert kept is not None, "its row is locked, also by a save that has nothing to do"
    return kept, is_new


def _noted(done: str, name: str) -> Note:
    return Note(f"content-type.{done}", "ContentType", name, {"name": name})


ONE = """
    select name, definition::text, created_at, updated_at
    from content_type
    where tenant = %(tenant)s and name = %(name)s
"""


async def one(conn: Connection, tenant: str, name: str) -> Kept | None:
    row = await row_of(conn, ONE, {"tenant": tenant, "name": name})
    return None if row is None else _kept(row)


PAGE = """
    select total.count, part.*
    from (select count(*) from content_type where tenant = %(tenant)s) as total
    left join lateral (
        select name, definition::text, created_at, updated_at
        from content_type where tenant = %(tenant)s
        order by name offset %(offset)s limit %(limit)s
    ) as part on true
    order by name
"""


async def page(conn: Connection, tenant: str, span: Span) -> tuple[list[Kept], int]:
    """Part of them, by name, and how many there are."""
    rows, total = await part_of(conn, PAGE, {"tenant": tenant, **span.values})
    return [_kept(row) for row in rows], total


DELETE = "delete from content_type where tenant = %(tenant)s and name = %(name)s"


async def delete(conn: Connection, tenant: str, name: str, by: By) -> None:
    """Take it away, unless entries exist: their foreign key decides, also against a race."""
    try:
        async with conn.transaction():
            named = {"tenant": tenant, "name": name}
            if not await remove(conn, DELETE, named, by, _noted("deleted", name)):
                raise NotFoundError("content type")
    except ForeignKeyViolation:
        detail = "Entries of this content type exist."
        raise ConflictError("content-type-in-use", detail) from None
