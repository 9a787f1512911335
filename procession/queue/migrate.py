"""Bringing the schema up to this release: numbered files, each once, in order, by one at a time.

A file begins with the oldest release that may run on what it makes, and `schema_migration` keeps
that, so an older release knows whether it can use a newer schema. A file that was applied is never
changed again: its checksum is kept too. A file drops nothing that a release has used: what it puts
something in the place of goes with the release after (0021 did, as none had been published).
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from time import monotonic, sleep
from typing import Any, LiteralString, cast

from psycopg import AsyncConnection, Connection, connect
from psycopg.errors import (
    InsufficientPrivilege,
    InvalidParameterValue,
    LockNotAvailable,
    UndefinedTable,
)
from psycopg.sql import SQL, Identifier

from procession.queue import waiting
from procession.queue.pool import Database
from procession.queue.pooled import HANDED_AROUND, is_handed_around

log = logging.getLogger(__name__)

LOCK_WAIT = 1  # seconds that a table is waited for, while others wait behind that
LOCK_TRIES = 60
PAUSE = 0.5  # seconds before it is asked for again, for those others
LOCK_SPACE = 0x50524F43  # "PROC": advisory locks of ours, told apart by the schema's hash


class MigrationError(Exception):
    """The schema cannot be used by this release, or not be brought to it. The message says why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def oldest_release(self) -> str:
        """The oldest release that may run on the schema once this is applied."""
        return _header(self.sql, "oldest release")

    @property
    def transactional(self) -> bool:
        """Whether it is one transaction. One that is not must bear being applied twice."""
        return _header(self.sql, "transactional", "true") == "true"


def _header(sql: str, name: str, default: str | None = None) -> str:
    found = re.search(rf"^-- {name}: (\S+)$", sql, re.MULTILINE)
    if found is None and default is None:
        raise MigrationError(f"A migration says nothing on its {name}.")
    return found[1] if found else str(default)


@cache
def migrations() -> tuple[Migration, ...]:
    """The files of this release, in order."""
    named = [
        (match, file)
        for file in files("procession.migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    found = [Migration(int(name[1]), name[2], file.read_text("utf-8")) for name, file in named]
    return tuple(sorted(found, key=lambda one: one.version))


APPLIED = "select version, name, checksum, oldest_release from schema_migration order by version"


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration that the schema has, as it was when it was applied."""

    version: int
    name: str
    checksum: str
    oldest_release: str


def migrate(database: Database) -> list[str]:
    """Apply what is missing and return the names of what was applied."""
    try:
        return _migrated(database)
    except InsufficientPrivilege:
        raise MigrationError(
            f"The user of DATABASE_URL may not change the schema {database.schema}: make it the "
            "owner of the schema and of what is in it. What had been applied before stays."
        ) from None


def _migrated(database: Database) -> list[str]:
    with connect(database.conninfo, autocommit=True) as conn:
        if is_handed_around(database, conn):
            raise MigrationError(HANDED_AROUND)
        conn.execute("set statement_timeout = 0")
        with suppress(InvalidParameterValue):  # where the server cannot look
            conn.execute("set client_connection_check_interval = '2s'")  # whether we still live
        _alone(conn, database.schema)
        if conn.execute("select where to_regnamespace(%s) is null", [database.schema]).rowcount:
            conn.execute(SQL("create schema {}").format(Identifier(database.schema)))
        return _apply(database, conn)


def _alone(conn: Connection, schema: str) -> None:
    """Wait for the one that migrates now.

    A statement that waits would be in the way of an index that is made beside the work: that waits
    for all statements that began before it.
    """
    lock, told_at = (LOCK_SPACE, schema), monotonic()
    while conn.execute("select where pg_try_advisory_lock(%s, hashtext(%s))", lock).rowcount == 0:
        if monotonic() - told_at > waiting.EVERY:
            told_at = monotonic()
            log.warning("Another migration goes on, by %s", waiting.locking(conn, *lock))
        sleep(PAUSE)


def _apply(database: Database, conn: Connection) -> list[str]:
    conn.execute("""
        create table if not exists schema_migration (
            version integer primary key,
            name text not null,
            checksum text not null,
            oldest_release text not null,
            applied_at timestamptz not null default now()
        )
    """)
    applied = [Applied(*row) for row in conn.execute(APPLIED)]
    ours = migrations()
    if fault := changed(applied, ours) or too_new(applied, ours):
        raise MigrationError(fault)
    done = {one.version for one in applied}
    return [_one(database, conn, one) for one in ours if one.version not in done]


NOTE = """
    insert into schema_migration (version, name, checksum, oldest_release) values (%s, %s, %s, %s)
"""


def _one(database: Database, conn: Connection, one: Migration) -> str:
    name = f"{one.version:04}_{one.name}"
    if one.transactional:
        _in_passing(conn, one)
    else:
        conn.execute("set lock_timeout = 0")  # what it waits for, nobody waits behind
        with waiting.watched(database, conn, name):
            for statement in re.split(r";\s*$", one.sql, flags=re.MULTILINE):
                conn.execute(_ours(statement))
        conn.execute(NOTE, _noted(one))
    return name


def _in_passing(conn: Connection, one: Migration) -> None:
    """Apply it between two statements of the others, and not while they wait.

    Whoever wants a table that is in use stands before all that want it afterwards: so a lock that
    is not had soon is given up, with all of the file, and asked for again.
    """
    conn.execute(_ours(f"set lock_timeout = '{LOCK_WAIT}s'"))
    for _ in range(LOCK_TRIES):
        try:
            with conn.transaction():
                conn.execute(_ours(one.sql))
                conn.execute(NOTE, _noted(one))
        except LockNotAvailable:
            log.warning("%04d_%s waits for a table that is in use", one.version, one.name)
            sleep(PAUSE)
        else:
            return
    raise MigrationError(
        f"{one.version:04}_{one.name} needs a table that has been in use for too long: somebody's"
        " transaction stays open. Nothing of it was applied; end that one, and migrate again."
    )


def _ours(statements: str) -> LiteralString:
    return cast("LiteralString", statements)  # the files of this package, not text from outside


def _noted(one: Migration) -> tuple[int, str, str, str]:
    return one.version, one.name, one.checksum, one.oldest_release


async def unusable(conn: AsyncConnection[Any]) -> str | None:
    """Why this release cannot work on the schema as it is, or None when it can."""
    try:
        applied = [Applied(*row) async for row in await conn.execute(APPLIED)]
    except UndefinedTable:
        applied = []
    except InsufficientPrivilege:
        return (
            "The user of DATABASE_URL may not read the schema: make it the owner of the tables, "
            "or grant it all on them."
        )
    ours = migrations()
    return too_old(applied, ours) or changed(applied, ours) or too_new(applied, ours)


def too_old(applied: Sequence[Applied], ours: Sequence[Migration]) -> str | None:
    done = {one.version for one in applied}
    missing = [f"{one.version:04}_{one.name}" for one in ours if one.version not in done]
    if not missing:
        return None
    return f"The schema lacks {', '.join(missing)}. Run `procession migrate`."


def changed(applied: Sequence[Applied], ours: Sequence[Migration]) -> str | None:
    checksums = {one.version: one.checksum for one in ours}
    for one in applied:
        if checksums.get(one.version, one.checksum) != one.checksum:
            return f"Migration {one.version:04}_{one.name} was changed after it was applied."
    return None


def too_new(applied: Sequence[Applied], ours: Sequence[Migration]) -> str | None:
    """Why the schema is one of a later release that leaves this one behind."""
    newest, release = ours[-1].version, version("procession")
    for one in applied:
        if one.version > newest and _parts(one.oldest_release) > _parts(release):
            return (
                f"The schema is newer than this release: {one.version:04}_{one.name} needs "
                f"release {one.oldest_release} or newer, and this is {release}."
            )
    return None


def _parts(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))
