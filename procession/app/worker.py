"""The worker process: performs what is due, until it is asked to stop.

`procession worker` and `procrastinate --app procession.app.worker.jobs worker` are the same worker:
the same settings, refusals, slots, keeper, health and signals. Importing this module reads nothing.
"""

import argparse
import asyncio
from dataclasses import replace
from datetime import timedelta

from procrastinate.app import WorkerOptions

from procession.app import compose, health
from procession.app.health import Health, Keys, serve_health
from procession.app.refusal import ArgumentError
from procession.app.runner import MOST, Options, Runner
from procession.app.settings import Settings
from procession.app.signals import at_once, on_stop
from procession.app.start import arrive_and_check, begin, refusing, run
from procession.outbound.http import Client
from procession.queue.jobs import Jobs
from procession.queue.pool import Database, Pool, make_pool


@refusing()
def main(_: argparse.Namespace) -> None:
    """`procession worker`."""
    run(_alone(begin("worker")))


async def _alone(settings: Settings) -> None:
    stop = asyncio.Event()
    with on_stop(stop.set, at_once, settings.shutdown_grace_seconds):
        if await arrive_and_check(settings.database, stop):
            async with make_pool(database_of(settings)) as pool:
                await run_worker(settings, options_of(settings), pool, stop)


def database_of(settings: Settings) -> Database:
    """As a worker reaches it."""
    return replace(settings.database, prefer_indexes=True)


def options_of(settings: Settings) -> Options:
    """What the settings say of a worker."""
    return Options(
        database=database_of(settings),
        concurrency=settings.workflows__runner_concurrency,
        enabled=settings.workflows__runner_enabled,
        grace=timedelta(seconds=settings.shutdown_grace_seconds),
        limit=timedelta(seconds=settings.workflows__lease_seconds),
        chore_limit=timedelta(seconds=settings.jobs__lease_seconds),
        windows=compose.windows(settings),
        ring=compose.ring(settings),
        max_depth=settings.workflows__max_depth,
        console_url=settings.app__console_url or None,
    )


async def run_worker(settings: Settings, options: Options, pool: Pool, stop: asyncio.Event) -> None:
    """Work and answer for it until asked to stop."""
    async with compose.client(settings) as client:
        runner, keys = make_runner(settings, options, pool, client), Keys(compose.ring(settings))

        async def reasons() -> list[str]:
            if stop.is_set():
                return ["stopping"]
            found = [*await health.of_database(pool), *runner.reasons()]
            return found if "database" in found else [*found, *await keys.reasons(pool)]

        async with serve_health(settings.host, settings.port_of("worker"), Health(reasons)):
            await runner.run(stop)


def make_runner(settings: Settings, options: Options, pool: Pool, client: Client) -> Runner:
    """A worker of the actions that are installed here."""
    return Runner(pool, options, compose.registry(settings, pool), client)


class _Plain:
    """What the plain command begins with: the settings, read when it opens the app."""

    settings: Settings | None = None

    def pool(self) -> Pool:
        self.settings = begin("worker")
        return make_pool(database_of(self.settings))

    async def work(self, pool: Pool, given: WorkerOptions) -> None:
        """Work as our own command does, by what its command line leaves to say."""
        settings = self.settings or begin("worker")
        options = options_of(settings)
        concurrency = given.get("concurrency", options.concurrency)
        with refusing():
            if not 1 <= concurrency <= MOST:
                raise ArgumentError(f"--concurrency takes 1 to {MOST}, not {concurrency}")
            if given.get("queues"):
                raise ArgumentError("--queues is not taken: a worker serves every tenant")
        options = replace(options, concurrency=concurrency, wait=given.get("wait", True))
        stop = asyncio.Event()
        with on_stop(stop.set, at_once, settings.shutdown_grace_seconds):
            if await arrive_and_check(options.database, stop):
                await run_worker(settings, options, pool, stop)


_plain = _Plain()
jobs = Jobs(_plain.pool, _plain.work)
