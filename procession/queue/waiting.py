"""Saying whom a migration waits for, since nothing else tells: a wait looks like long work."""

import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from psycopg import Connection, Error, connect
from psycopg.rows import class_row

from procession.queue.holders import Holder
from procession.queue.pool import Database

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds from one line to the next

BLOCKING = """
    select pid, coalesce(nullif(application_name, ''), 'no name') as name,
           coalesce(state, 'not ours to see') as state,
           coalesce(extract(epoch from now() - xact_start), 0)::float8 as seconds
    from pg_stat_activity
    where pid = any (pg_blocking_pids(%(pid)s))
    order by xact_start
    limit 5
"""
LOCKING = """
    select pid, coalesce(nullif(application_name, ''), 'no name') as name,
           coalesce(state, 'not ours to see') as state,
           coalesce(extract(epoch from now() - backend_start), 0)::float8 as seconds
    from pg_stat_activity
    join pg_locks using (pid)
    where locktype = 'advisory' and granted and classid = %(space)s::int::oid
      and database = (select oid from pg_database where datname = current_database())
      and objid = hashtext(%(schema)s)::oid
"""


def told(holders: Sequence[Holder]) -> str:
    """Each by its process, in the words of `pg_stat_activity`."""
    each = [f"{one.pid} ({one.name}, {one.state}, {one.seconds:.0f} s)" for one in holders]
    return ", ".join(each) or "nobody to be seen"


def locking(conn: Connection, space: int, schema: str) -> str:
    """Who has the lock of the one that migrates."""
    with conn.cursor(row_factory=class_row(Holder)) as cursor:
        return told(cursor.execute(LOCKING, {"space": space, "schema": schema}).fetchall())


@contextmanager
def watched(database: Database, conn: Connection, name: str) -> Generator[None]:
    """While the statements of this connection wait for others, say so by a session beside it."""
    row = conn.execute("select pg_backend_pid()").fetchone()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY):
            with suppress(Error):  # no session is to be had, or it is ended: the work goes on
                _say(database, {"pid": row and row[0]}, name)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()


def _say(database: Database, wanted: dict[str, object], name: str) -> None:
    with connect(database.conninfo) as conn, conn.cursor(row_factory=class_row(Holder)) as cursor:
        if found := cursor.execute(BLOCKING, wanted).fetchall():
            log.warning("%s waits for these transactions to end: %s", name, told(found))
