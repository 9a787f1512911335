"""The worker: performs what is due, until it is asked to stop.

`procession worker` and `procrastinate --app procession.app.worker.jobs worker` are the same worker:
the same settings, refusals, slots, keeper, health and signals. Importing this module reads nothing.
"""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import version
from time import monotonic
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.app import WorkerOptions
from procrastinate.worker import Worker as StockWorker

from procession.actions.load import built_in, load
from procession.actions.registry import Registry
from procession.app import compose
from procession.app.health import Health, of_database, serve_health
from procession.app.keeper import Keeper
from procession.app.settings import Settings, read_or_exit
from procession.app.signals import at_once, on_stop
from procession.app.start import arrive_and_check, begin, refusing, run
from procession.outbound.http import Client
from procession.queue.claim import Wanted
from procession.queue.ids import uuid7
from procession.queue.jobs import Jobs, worker_of
from procession.queue.leases import SELF_STOP, Held
from procession.queue.manager import ATTEMPT, Manager, Work
from procession.queue.pool import Database, Pool, make_pool
from procession.queue.record import Recorder
from procession.queue.types import Happened, Passed, Tell, nobody
from procession.queue.workers import Worker as Row
from procession.tasks.attempt import PERFORMER, Performer, attempt

MOST = 20  # actions in flight in one worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the operator decides of a worker."""

    database: Database
    concurrency: int = 1
    enabled: bool = True
    grace: timedelta = timedelta(seconds=25)
    limit: timedelta = timedelta(seconds=300)
    wait: bool = True  # for more, once there is nothing due

    @classmethod
    def of(cls, settings: Settings) -> "Options":
        return cls(
            database=replace(settings.database, prefer_indexes=True),
            concurrency=settings.workflows__runner_concurrency,
            enabled=settings.workflows__runner_enabled,
            grace=timedelta(seconds=settings.shutdown_grace_seconds),
            limit=timedelta(seconds=settings.workflows__lease_seconds),
        )
