"""Bringing the schema up to this release: numbered files, each once and in order."""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString, cast

from psycopg import Connection, connect
from psycopg.sql import SQL, Identifier

from procession.queue.pool import Database

LOCK_SPACE = 0x50524F43  # "PROC": advisory locks of ours, told apart by the schema's hash
TRANSACTION = "-- transactional: false"


class MigrationError(Exception):
    """The schema cannot be brought to this release. The message says why."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """The files of this release, in order."""
    found: list[Migration] = []
    for file in files("procession.migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda one: one.version)


def migrate(database: Database) -> list[str]:
    """Apply what is missing and return the names of what was applied."""
    with connect(database.conninfo, autocommit=True) as conn:
        conn.execute("set statement_timeout = 0")
        conn.execute(SQL("create schema if not exists {}").format(Identifier(database.schema)))
        conn.execute("select pg_advisory_lock(%s, hashtext(%s))", (LOCK_SPACE, database.schema))
        return _apply(conn)


def _apply(conn: Connection) -> list[str]:
    conn.execute("""
        create table if not exists schema_migration (
            version integer primary key,
            name text not null,
            checksum text not null,
            applied_at timestamptz not null default now()
        )
    """)
    rows = conn.execute("select version, name, checksum from schema_migration").fetchall()
    ours = {one.version: one for one in migrations()}
    for version, name, checksum in rows:
        if version not in ours:
            raise MigrationError(
                f"The schema is newer than this release: it has migration {version} ({name})."
            )
        if ours[version].checksum != checksum:
            raise MigrationError(f"Migration {version} ({name}) was changed after it was applied.")
    done = {row[0] for row in rows}
    return [_one(conn, one) for one in ours.values() if one.version not in done]


def _one(conn: Connection, one: Migration) -> str:
    # the files of this package, not text from outside
    statements = cast("LiteralString", one.sql)
    note = "insert into schema_migration (version, name, checksum) values (%s, %s, %s)"
    if one.sql.startswith(TRANSACTION):
        conn.execute(statements)
        conn.execute(note, (one.version, one.name, one.checksum))
    else:
        with conn.transaction():
            conn.execute(statements)
            conn.execute(note, (one.version, one.name, one.checksum))
    return f"{one.version:04}_{one.name}"
