"""The process that serves the API. Any number of them may run; none performs an action."""

import argparse
import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from procession.api.app import create_app
from procession.app import compose, health
from procession.app.server import Address, listening
from procession.app.settings import Settings
from procession.app.signals import at_once, on_stop
from procession.app.start import arrive_and_check, begin, refusing, run
from procession.queue import first_key
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
            async with make_pool(settings.database) as pool, serving(settings, pool, stop):
                await stop.wait()


@asynccontextmanager
async def serving(settings: Settings, pool: Pool, stop: asyncio.Event) -> AsyncGenerator[Address]:
    """The API on this pool, for as long as the block lasts."""

    async def reasons() -> list[str]:
        return ["stopping"] if stop.is_set() else await health.of_database(pool)

    async with pool.connection() as conn:
        await first_key.note(conn, compose.ring(settings).digest)
    async with compose.prober(settings) as prober:
        app = create_app(compose.services(settings, pool, prober, reasons))
        address = Address(settings.host, settings.port_of("api"))
        async with listening(app, address, settings.shutdown_grace_seconds) as where:
            yield where
