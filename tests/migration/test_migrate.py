import threading
from importlib.metadata import version
from importlib.resources import files

import psycopg
import pytest

from procession.queue import migrate as module
from procession.queue.migrate import Migration, MigrationError, migrate, migrations, unusable
from procession.queue.pool import Database
from procession.queue.reach import check_schema


async def fault(database):
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
        return await unusable(conn)


def later_release(monkeypatch, oldest_release):
    """This release's migrations, and one of a release to come."""
    later = Migration(9000, "later", f"-- oldest release: {oldest_release}\nselect 1")
    monkeypatch.setattr(module, "migrations", lambda: [*migrations(), later])


def test_the_vendored_schema_is_that_of_the_installed_procrastinate():
    theirs = (files("procrastinate") / "sql" / "schema.sql").read_text()

    assert migrations()[0].sql.split("\n", 2)[2] == theirs
    assert f"Procrastinate {version('procrastinate')}" in migrations()[0].sql


def test_each_file_is_applied_once(fresh):
    names = [f"{one.version:04}_{one.name}" for one in migrations()]

    assert migrate(fresh) == names
    assert migrate(fresh) == []


def test_who_may_not_change_the_schema_is_told_so(fresh, stranger):
    with pytest.raises(MigrationError, match=r"may not change the schema public: make it the own"):
        migrate(stranger(fresh))
    migrate(fresh)
    with pytest.raises(MigrationError, match="may not change the schema public"):
        migrate(stranger(fresh))


async def test_who_may_not_read_the_schema_is_told_so(fresh, stranger):
    migrate(fresh)

    with pytest.raises(MigrationError, match="may not read the schema: make it the owner"):
        await check_schema(stranger(fresh))


async def test_a_process_says_what_the_schema_lacks(fresh):
    assert "lacks 0001_procrastinate_3_10, 0002_procession" in await fault(fresh)
    migrate(fresh)
    assert await fault(fresh) is None


def test_eight_at_once_apply_each_file_once(fresh):
    applied, barrier = [], threading.Barrier(8)

    def run():
        barrier.wait()
        applied.extend(migrate(fresh))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert sorted(applied) == [f"{one.version:04}_{one.name}" for one in migrations()]


async def test_a_schema_that_leaves_this_release_behind_is_refused(fresh, monkeypatch):
    with monkeypatch.context() as later:
        later_release(later, "99.0.0")
        migrate(fresh)

    assert "needs release 99.0.0 or newer" in await fault(fresh)
    with pytest.raises(MigrationError, match="newer than this release"):
        migrate(fresh)


async def test_a_newer_schema_that_this_release_may_run_on_is_used(fresh, monkeypatch):
    with monkeypatch.context() as later:
        later_release(later, version("procession"))
        migrate(fresh)

    assert await fault(fresh) is None
    assert migrate(fresh) == []


async def test_a_file_that_was_changed_after_it_was_applied_is_refused(fresh, monkeypatch):
    migrate(fresh)
    *others, last = migrations()
    changed = Migration(last.version, last.name, f"{last.sql}\n-- one more line\n")
    monkeypatch.setattr(module, "migrations", lambda: [*others, changed])

    assert "was changed after it was applied" in await fault(fresh)
    with pytest.raises(MigrationError, match="was changed"):
        migrate(fresh)


def test_a_file_that_fails_leaves_nothing_of_itself(fresh, monkeypatch):
    broken = Migration(9000, "broken", "-- oldest release: 0.1.0\ncreate table half (); select 1/0")
    monkeypatch.setattr(module, "migrations", lambda: [*migrations(), broken])

    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(fresh)

    with psycopg.connect(fresh.conninfo) as conn:
        assert conn.execute("select to_regclass('half')").fetchone() == (None,)
        assert conn.execute("select max(version) from schema_migration").fetchone() == (
            migrations()[-1].version,
        )


def test_two_schemas_of_one_database_are_apart(fresh):
    other = Database(fresh.url, schema="second")

    assert migrate(fresh)
    assert migrate(other)

    with psycopg.connect(other.conninfo) as conn:
        assert conn.execute("select current_schema").fetchone() == ("second",)
        assert conn.execute(
            "select count(distinct schemaname) from pg_tables where tablename = 'run'"
        ).fetchone() == (2,)
