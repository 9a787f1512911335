"""The process that serves the API. Any number of them may run; none performs an action."""

import argparse
import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from procession.api.app import create_app
from procession.api.scrape import Scrape
from procession.app import compose, health, tracing
from procession.app.metrics import Metrics
from procession.app.server import Address, listening
from procession.app.settings import Settings
from procession.app.signals import at_once, on_stop
from procession.app.start import arrive_and_check, begin, join, refusing, run, writing
from procession.queue import first_key, grants
from procession.queue.pool import Pool, make_pool


@refusing()
def main(_: argparse.Namespace) -> None:
    """`procession api`."""
    run(run_api(begin("api")))


async def run_api(settings: Settings) -> None:
    """Serve until asked to stop."""
    stop = asyncio.Event()
    with on_stop(stop.set, at_once, settings.shutdown_grace_seconds):
        if await arrive_and_check(settings.database, stop):
            with tracing.traced("api"):
                async with (
                    make_pool(settings.database) as pool,
                    serving(settings, pool, stop, Metrics()),
                ):
                    await stop.wait()


@asynccontextmanager
async def serving(
    settings: Settings, pool: Pool, stop: asyncio.Event, metrics: Metrics
) -> AsyncGenerator[Address]:
    """The API on this pool, for as long as the block lasts."""

    async def reasons() -> list[str]:
        return ["stopping"] if stop.is_set() else await health.of_database(pool)

    async def write() -> None:
        ring = compose.ring(settings)
        await join(pool, settings.database__schema, "api", ring)
        async with pool.connection() as conn:
            await first_key.note(conn, ring.digest)
            await grants.grant(conn)

    async with (
        writing(write, stop),
        compose.prober(settings) as prober,
        compose.issuer(settings) as issuer,
    ):
        services = compose.services(settings, pool, prober, issuer, reasons)
        scrape = Scrape(settings.metrics__scrape_key, metrics.text)
        app = create_app(replace(services, scrape=scrape, tell=metrics.heard))
        address = Address(settings.host, settings.port_of("api"))
        async with listening(app, address, settings.shutdown_grace_seconds) as where:
            yield where
