"""What a tenant keeps under names of its own: found, listed, saved and taken away.

The modules of those things bring the statements, and make values of the rows. A change leaves its
audit entry in the same transaction, which is the caller's.
"""

from collections.abc import Mapping
from typing import LiteralString

from psycopg.rows import DictRow, dict_row

from procession.queue.audit import By, Note, note
from procession.queue.pool import Connection

Values = Mapping[str, object]


async def row_of(conn: Connection, statement: LiteralString, values: Values) -> DictRow | None:
    """The one row, by the names of its columns."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        return await cursor.fetchone()


async def part_of(
    conn: Connection, statement: LiteralString, values: Values
) -> tuple[list[DictRow], int]:
    """The rows of a part, and how many there are: each row says it, and one that is no more."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(statement, values)
        rows = await cursor.fetchall()
    return [row for row in rows if row["created_at"] is not None], rows[0]["count"]


async def make_or_replace(
    conn: Connection, statement: LiteralString, values: Values, by: By, what: Note
) -> bool:
    """Save it, and say whether it is new. One that is there already gives no row, and no entry."""
    row = await (await conn.execute(statement, values)).fetchone()
    if row is not None:
        await note(conn, str(values["tenant"]), by, what)
    return row is not None and bool(row[0])


async def remove(
    conn: Connection, statement: LiteralString, values: Values, by: By, what: Note
) -> bool:
    """Take it away; False when it was not there."""
    deleted = await conn.execute(statement, values)
    if deleted.rowcount:
        await note(conn, str(values["tenant"]), by, what)
    return deleted.rowcount > 0
