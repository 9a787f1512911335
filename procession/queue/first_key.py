"""Which key the API seals with: noted, so that a worker that lacks it can say so."""

from procession.queue.pool import Connection

NOTE = """
    insert into first_key (digest) values (%(digest)s)
    on conflict (is_only) do update set digest = excluded.digest, noted_at = clock_timestamp()
    where first_key.digest <> excluded.digest
"""


async def note(conn: Connection, digest: bytes) -> None:
    """Say which one it is now."""
    await conn.execute(NOTE, {"digest": digest})


NOTED = "select digest from first_key"


async def noted(conn: Connection) -> bytes | None:
    """What was said last; None before any API has begun."""
    row = await (await conn.execute(NOTED)).fetchone()
    return None if row is None else bytes(row[0])
