"""Whether Postgres can be reached at all, before anything stands on it."""

import re

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from procession.engine.redaction import redact
from procession.queue.migrate import MigrationError, unusable
from procession.queue.outage import OUTAGES
from procession.queue.pool import Database

# What a server says of who asks, and not of how it is: it will go on saying so. An error of a
# connection has no code.
REFUSAL = re.compile(
    r"(?:role|database) .* does not exist|authentication failed|no password supplied"
    r"|no pg_hba\.conf entry|permission denied|not permitted|not currently accepting"
)


async def out_of_reach(database: Database) -> str | None:
    """Why Postgres cannot be worked with, or None when it can."""
    try:
        async with await AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
            await conn.execute("select 1")
    except OUTAGES as error:
        return _said(database.conninfo, str(error))
    return None


def _said(conninfo: str, error: str) -> str:
    """The error as a sentence that names the server and the database, and never the password."""
    given = conninfo_to_dict(conninfo)
    for one in Conninfo.get_defaults():
        default = one.val.decode() if one.val else ""
        given.setdefault(one.keyword.decode(), default)
    at = f"{given['host'] or given['hostaddr'] or 'its socket'} port {given['port']}"
    name = given["dbname"] or given["user"]
    refusals = [line for line in error.splitlines() if REFUSAL.search(line)]
    line = [*refusals, *error.splitlines(), ""][0]
    why = redact(re.split(r"(?:FATAL|failed): +", line)[-1])
    if refusals:
        return f"Postgres at {at} does not let {given['user']} into the database {name} ({why})"
    return f"Postgres does not answer at {at} for the database {name} ({why})"


async def check_schema(database: Database) -> None:
    """Raise what this release has against the schema."""
    async with await AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
        if fault := await unusable(conn):
            raise MigrationError(fault)
