"""Whether a session stays one's own, or a pooler gives it to whoever asks next."""

from psycopg import Connection, connect

from procession.queue.pool import Database

MINE = "select pg_backend_pid()"
HANDED_AROUND = (
    "DATABASE_URL leads to a pooler that hands sessions around (transaction mode), and with them "
    "the lock of whoever migrates: set it to Postgres, or to the pooler's port for session mode."
)


def is_handed_around(database: Database, conn: Connection) -> bool:
    """Whether another one is given what this connection had, or this one is given another.

    A pooler has ids of its own for its sessions; without one there is nothing to find out.
    """
    mine = conn.execute(MINE).fetchone()
    if mine == (conn.info.backend_pid,):
        return False
    with connect(database.conninfo) as other:  # in a transaction, which keeps what it is given
        theirs = other.execute(MINE).fetchone()
        return mine == theirs or mine != conn.execute(MINE).fetchone()
