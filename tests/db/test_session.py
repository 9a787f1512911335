"""What an operator sets for a database or a role: our sessions read and write as they always do."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from procession.queue.pool import make_pool

SAID = "select timestamptz '2026-03-01 08:00+00', interval '-1 day 2 hours', '😀'"


@pytest.fixture
def set_to(database, request):
    """The database with a setting of an operator's."""
    name = sql.Identifier(urlsplit(database.url).path[1:])
    with psycopg.connect(database.url, autocommit=True) as conn:
        conn.execute(sql.SQL("alter database {} set ").format(name) + sql.SQL(request.param))
        yield
        conn.execute(sql.SQL("alter database {} reset all").format(name))


@pytest.mark.parametrize(
    "set_to",
    [
        "datestyle = 'SQL, DMY'",
        "datestyle = 'German'",
        "intervalstyle = 'sql_standard'",
        "client_encoding = 'LATIN1'",
    ],
    indirect=True,
)
@pytest.mark.usefixtures("set_to")
async def test_a_session_is_ours_whatever_the_database_says(database):
    async with make_pool(database) as opened, opened.connection() as conn:
        cursor = await conn.execute(SAID)
        said = await cursor.fetchone()

    moment = datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert said == (moment, timedelta(days=-1, hours=2), "😀")
