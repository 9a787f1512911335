"""The worker process: performs what is due, until it is asked to stop.

`procession worker` and `procrastinate --app procession.app.worker.jobs worker` are the same worker:
the same settings, refusals, slots, keeper, health and signals. Importing this module reads nothing.
"""

# It is there for being imported before all else.
import procession.app.plain_line  # noqa: F401  # pyright: ignore[reportUnusedImport]

# isort: split

import argparse
import asyncio
import gc
from dataclasses import replace
from datetime import timedelta
from functools import partial

from procrastinate.app import WorkerOptions

from procession.api.scrape import Scrape
from procession.app import compose, health, tracing
from procession.app.health import Health, Keys, serve_health
from procession.app.metrics import Metrics, WorkerMetrics
from procession.app.refusal import ArgumentError
from procession.app.runner import MOST, Options, Runner
from procession.app.settings import Settings
from procession.app.signals import at_once, on_stop
from procession.app.start import arrive_and_check, begin, join, refusing, run, written
from procession.outbound.http import Client
from procession.queue.jobs import Jobs
from procession.queue.pool import Database, Pool, make_pool
from procession.queue.types import Happened

COLLECTED = 5_000  # objects more than before, when cycles among them are looked for


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


def collect_seldom() -> None:
    """Leave what is imported to the end of the process, and look for cycles in larger heaps.

    An attempt makes hundreds of objects and leaves no cycle; to look took a twentieth of its time.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED)


def database_of(settings: Settings) -> Database:
    """As a worker reaches it."""
    return replace(settings.database, prefer_indexes=True)


def options_of(settings: Settings) -> Options:
    """What the settings say of a worker."""
    every = settings.workflows__backlog_interval_seconds
    return Options(
        database=database_of(settings),
        concurrency=settings.workflows__runner_concurrency,
        enabled=settings.workflows__runner_enabled,
        grace=timedelta(seconds=settings.shutdown_grace_seconds),
        limit=timedelta(seconds=settings.workflows__lease_seconds),
        chore_limit=timedelta(seconds=settings.jobs__lease_seconds),
        windows=compose.windows(settings),
        backlog_every=timedelta(seconds=every) if every else None,
        ring=compose.ring(settings),
        max_depth=settings.workflows__max_depth,
        console_url=settings.app__console_url or None,
    )


async def run_worker(settings: Settings, options: Options, pool: Pool, stop: asyncio.Event) -> None:
    """Work and answer for it until asked to stop."""
    collect_seldom()
    ring = compose.ring(settings)
    begins = partial(join, pool, settings.database__schema, "worker", ring)
    if not await written(begins, stop):
        return
    metrics, keys = Metrics(), Keys(ring)
    scrape = Scrape(settings.metrics__scrape_key, metrics.text)
    with tracing.traced("worker"):
        async with compose.client(settings) as client:
            runner = make_runner(settings, options, pool, client, metrics)

            async def reasons() -> list[str]:
                if stop.is_set():
                    return ["stopping"]
                found = [*await health.of_database(pool), *runner.reasons()]
                if "database" not in found:
                    found += await keys.reasons(pool)
                return list(dict.fromkeys(found))

            port = settings.port_of("worker")
            health_served = serve_health(settings.host, port, Health(reasons), scrape)
            async with health_served, keys.watched(pool):
                await runner.run(stop)


def make_runner(
    settings: Settings, options: Options, pool: Pool, client: Client, metrics: Metrics
) -> Runner:
    """A worker of the actions that are installed here, which adds what it counts to the metrics."""
    registry = compose.registry(settings, pool)
    counted = WorkerMetrics(metrics, registry.types)

    def heard(happened: Happened) -> None:
        counted.heard(happened)
        tracing.heard(happened)

    runner = Runner(pool, options, registry, client, tell=heard)
    counted.watch(lambda: runner.in_flight)
    return runner


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
        stop = asyncio.Event()
        with refusing(), on_stop(stop.set, at_once, settings.shutdown_grace_seconds):
            if not 1 <= concurrency <= MOST:
                raise ArgumentError(f"--concurrency takes 1 to {MOST}, not {concurrency}")
            if given.get("queues"):
                raise ArgumentError("--queues is not taken: a worker serves every tenant")
            options = replace(options, concurrency=concurrency, wait=given.get("wait", True))
            if await arrive_and_check(options.database, stop):
                await run_worker(settings, options, pool, stop)


_plain = _Plain()
jobs = Jobs(_plain.pool, _plain.work)
