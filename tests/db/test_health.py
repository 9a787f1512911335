import httpx2
import pytest

from procession.api.scrape import Scrape
from procession.app.health import Health, of_database, serve_health
from procession.queue.pool import Database, make_pool


async def test_a_database_that_answers_with_our_schema_is_no_reason(pool):
    assert await of_database(pool) == []


async def test_a_database_without_our_schema_is_a_reason(database):
    other = Database(database.url, schema="nowhere")
    async with make_pool(other) as pool:
        assert await of_database(pool) == ["schema"]


async def test_a_schema_that_moved_under_the_process_is_a_reason(pool, conn):
    await conn.execute(
        """insert into schema_migration (version, name, checksum, oldest_release)
           values (9000, 'later', 'x', '99.0.0')"""
    )
    try:
        assert await of_database(pool) == ["schema"]
    finally:
        await conn.execute("delete from schema_migration where version = 9000")


async def test_a_database_that_is_away_is_a_reason(pool):
    await pool.close()

    assert await of_database(pool) == ["database"]


@pytest.mark.parametrize(
    ("reasons", "status", "said"),
    [
        ([], 200, {"status": "ready"}),
        (["pass", "leases"], 503, {"status": "not-ready", "reasons": ["pass", "leases"]}),
    ],
)
async def test_a_process_answers_for_itself_on_its_own_port(reasons, status, said):
    async def why():
        return reasons

    async with (
        serve_health("127.0.0.1", 0, Health(why), Scrape()) as where,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{where.port}", trust_env=False) as client,
    ):
        ready = await client.get("/health/ready")
        live = await client.get("/health/live")

    assert (ready.status_code, ready.json()) == (status, said)
    assert (live.status_code, live.json()) == (200, {"status": "live"})
