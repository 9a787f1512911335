"""Bringing the schema up to this release: numbered files, each once, in order, by one at a time.

A file begins with the oldest release that may run on what it makes, and `schema_migration` keeps
that, so an older release knows whether it can use a newer schema. A file that was applied is never
changed again: its checksum is kept too.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, LiteralString, cast

from psycopg import AsyncConnection, Connection, connect
from psycopg.errors import UndefinedTable
from psycopg.sql import SQL, Identifier

from procession.queue.pool import Database

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
    with connect(database.conninfo, autocommit=True) as conn:
        conn.execute("set statement_timeout = 0")
        conn.execute("select pg_advisory_lock(%s, hashtext(%s))", (LOCK_SPACE, database.schema))
        if conn.execute("select where to_regnamespace(%s) is null", [database.schema]).rowcount:
            conn.execute(SQL("create schema {}").format(Identifier(database.schema)))
        return _apply(conn)


def _apply(conn: Connection) -> list[str]:
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
    return [_one(conn, one) for one in ours if one.version not in done]


NOTE = """
    insert into schema_migration (version, name, checksum, oldest_release) values (%s, %s, %s, %s)
"""


def _one(conn: Connection, one: Migration) -> str:
    # the files of this package, not text from outside
    statements = cast("LiteralString", one.sql)
    noted = (one.version, one.name, one.checksum, one.oldest_release)
    if one.transactional:
        with conn.transaction():
            conn.execute(statements)
            conn.execute(NOTE, noted)
    else:
        conn.execute(statements)
        conn.execute(NOTE, noted)
    return f"{one.version:04}_{one.name}"


async def unusable(conn: AsyncConnection[Any]) -> str | None:
    """Why this release cannot work on the schema as it is, or None when it can."""
    try:
        applied = [Applied(*row) async for row in await conn.execute(APPLIED)]
    except UndefinedTable:
        applied = []
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
