"""An API and a worker with a key in common find each other, or one of them refuses."""

import asyncio

import pytest

from procession.app.start import ApartError, join
from procession.queue.fingerprint import meet
from procession.queue.migrate import migrate
from procession.queue.pool import Database, make_pool
from procession.queue.sealing import Ring

ONE, OTHER, THIRD = ({name: bytes([number]) * 32} for number, name in enumerate(("a", "b", "c")))


@pytest.fixture
async def second(database, conn):
    """A pool on a second schema of the same database."""
    other = Database(database.url, schema="second")
    await asyncio.to_thread(migrate, other)
    async with make_pool(other) as pool:
        yield pool
    await conn.execute("drop schema second cascade")


async def test_in_one_schema_they_begin_in_any_order_and_again(pool):
    for _ in range(2):
        for process in ("api", "worker"):
            await join(pool, "public", process, Ring(ONE))


@pytest.mark.parametrize(("first", "later"), [("api", "worker"), ("worker", "api")])
async def test_with_a_key_in_common_they_do_not_work_in_two_schemas(pool, second, first, later):
    await join(pool, "public", first, Ring({**OTHER, **ONE}))

    with pytest.raises(ApartError) as refused:
        await join(second, "second", later, Ring({**ONE, **THIRD}))

    assert str(refused.value) == (
        f"DATABASE__SCHEMA=second: the {first} that shares a key of SECRETS__KEYS with this {later}"
        " works in the schema public, so that they would never meet. Set both to the same schema."
        " Two installations in one database take keys of their own; if public is no longer in use,"
        " drop it."
    )
    assert refused.value.status == 2


async def test_who_was_refused_is_not_in_the_way_of_who_was_not(pool, second):
    await join(pool, "public", "api", Ring(ONE))
    with pytest.raises(ApartError):
        await join(second, "second", "worker", Ring(ONE))

    await join(pool, "public", "worker", Ring(ONE))
    await join(pool, "public", "api", Ring(ONE))


async def test_two_installations_with_keys_of_their_own_are_let_be(pool, second):
    for process in ("api", "worker"):
        await join(pool, "public", process, Ring(ONE))
        await join(second, "second", process, Ring(OTHER))


async def test_of_two_that_begin_together_one_finds_the_other(pool, second):
    async def begins(pool, schema, process):
        async with pool.connection() as conn:
            return await meet(conn, schema, process, Ring(ONE).digests)

    for _ in range(10):
        found = await asyncio.gather(
            begins(pool, "public", "api"), begins(second, "second", "worker")
        )

        assert sorted(found, key=str) in ([None, "public"], [None, "second"])
        for one in (pool, second):
            async with one.connection() as conn:
                await conn.execute("delete from fingerprint")


async def test_a_table_of_somebody_elses_by_that_name_is_left_alone(pool, conn):
    await conn.execute("create schema theirs; create table theirs.fingerprint (finger integer)")
    try:
        await join(pool, "public", "api", Ring(ONE))
    finally:
        await conn.execute("drop schema theirs cascade")
