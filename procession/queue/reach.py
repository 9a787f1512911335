"""Whether Postgres can be reached at all, before anything stands on it."""

from psycopg import AsyncConnection

from procession.engine.redaction import redact
from procession.queue.migrate import MigrationError, unusable
from procession.queue.outage import OUTAGES
from procession.queue.pool import Database


async def out_of_reach(database: Database) -> str | None:
    """Why Postgres does not answer, or None when it does."""
    try:
        async with await AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
            await conn.execute("select 1")
    except OUTAGES as error:
        return redact(str(error).partition("\n")[0])
    return None


async def check_schema(database: Database) -> None:
    """Raise what this release has against the schema."""
    async with await AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
        if fault := await unusable(conn):
            raise MigrationError(fault)
