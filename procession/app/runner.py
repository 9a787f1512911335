"""What a worker is made of, and how it comes to its end.

Everything that goes on beside the actions (keeper, recorder) goes on until the last outcome is
written. A loop that ends without being asked to ends the worker with an error.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from time import monotonic

from procession.actions.registry import Registry
from procession.app.keeper import Keeper
from procession.app.notice import notice
from procession.outbound.http import Client
from procession.queue.bodies import Bodies
from procession.queue.claim import Wanted
from procession.queue.growth import look_on
from procession.queue.ids import uuid7
from procession.queue.intake import Intake
from procession.queue.jobs import Chore, Working
from procession.queue.leases import SELF_STOP, Held
from procession.queue.manager import Work
from procession.queue.pool import Database, Pool
from procession.queue.record import ClosedError, Recorder
from procession.queue.removal import Windows
from procession.queue.sealing import NO_KEYS, Ring
from procession.queue.types import Happened, Passed, Tell, nobody
from procession.queue.workers import Worker
from procession.tasks.attempt import PERFORMER, Performer, attempt
from procession.tasks.backlog import BACKLOG, Measurer, backlog
from procession.tasks.bulk import BULK, EACH_MINUTE, Bulker, bulk
from procession.tasks.retention import CRON, RETENTION, Sweeper, retention

log = logging.getLogger(__name__)

MOST = 20  # actions in flight in one worker
PATIENCE = 5.0  # seconds at the end for a database that does not answer
STALE_PASS = 30.0  # seconds without a pass, or
STALE_BEAT = 15.0  # without a renewal of the worker's row, after which it is not ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the operator decides of a worker."""

    database: Database
    concurrency: int = 1
    enabled: bool = True
    grace: timedelta = timedelta(seconds=25)
    limit: timedelta = timedelta(seconds=300)  # of an attempt
    chore_limit: timedelta = timedelta(seconds=600)  # of a task of maintenance
    windows: Windows = field(default_factory=Windows)
    backlog_every: timedelta | None = None  # between measurements; None: there are none
    max_depth: int = 10  # of runs that an action's writes may queue
    console_url: str | None = None
    ring: Ring = NO_KEYS
    wait: bool = True  # for more, once there is nothing due

    @property
    def measures(self) -> bool:
        """Whether it measures what waits, now and then."""
        return self.enabled and self.backlog_every is not None


class UnaskedError(Exception):
    """The worker ended without being asked to."""


def _row(options: Options, registry: Registry) -> Worker:
    """What others read of this worker."""
    return Worker(
        id=uuid7(),
        release=version("procession"),
        types=registry.types,
        claims=options.enabled,
        described=registry.catalogue().types,
    )


def _maintenance(
    pool: Pool, options: Options, types: tuple[str, ...]
) -> tuple[dict[str, object], list[Chore]]:
    """What tasks of maintenance find in their context, and when each is performed."""
    measurer = Measurer(pool=pool, types=types, every=options.backlog_every)
    context: dict[str, object] = {
        RETENTION: Sweeper(pool=pool, windows=options.windows, limit=options.chore_limit),
        BULK: Bulker(pool=pool, limit=options.chore_limit),
        BACKLOG: measurer,
    }
    return context, [
        Chore(RETENTION, CRON, retention),
        Chore(BULK, EACH_MINUTE, bulk),
        Chore(BACKLOG, measurer.ticks if options.measures else None, backlog),
    ]


class Runner:
    """One worker, on a pool that it shares with whatever else the process does."""

    def __init__(
        self,
        pool: Pool,
        options: Options,
        registry: Registry,
        client: Client,
        *,
        tell: Tell = nobody,
    ) -> None:
        assert 1 <= options.concurrency <= MOST, "settings see to it"
        self._pool, self._options, self._tell = pool, options, tell
        self._passed_at = monotonic()
        self._held = held = Held()
        row = _row(options, registry)
        repeatable = tuple(one for one in registry.types if registry.repeatable(one))
        slots = options.concurrency if options.enabled else 0
        intake = Intake(Wanted(row.id, registry.types, repeatable), slots, held, self._heard)
        self._recorder = Recorder(pool, held, self._heard, intake)
        self._keeper = Keeper(
            database=options.database,
            worker=row,
            held=held,
            tell=self._heard,
            shows_backlog=options.measures,
        )
        performer = Performer(
            registry=registry,
            client=client,
            limit=options.limit,
            pool=pool,
            bodies=Bodies(pool),
            held=held,
            intake=intake,
            recorder=self._recorder,
            max_depth=options.max_depth,
            console_url=options.console_url,
            ring=options.ring,
            tell=self._heard,
        )
        work = Work(pool=pool, intake=intake, held=held, tell=self._heard, wait=options.wait)
        context, chores = _maintenance(pool, options, registry.types)
        self.working = Working(
            work, attempt, {PERFORMER: performer, **context}, options.grace, chores
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until asked to stop; actions in flight may end within the grace, then are cut."""
        # outside of the group: when that fails, what is in flight must be written all the same
        recording = asyncio.create_task(self._recorder.run())
        keeping = asyncio.create_task(self._keeper.run())
        try:
            async with asyncio.TaskGroup() as beside:
                watching = [
                    beside.create_task(self._unless_it_ends(recording)),
                    beside.create_task(self._unless_it_ends(keeping)),
                    beside.create_task(self._when(stop)),
                    beside.create_task(look_on(self._pool)),
                ]
                try:
                    await self.working.run()
                    if self._options.wait and not stop.is_set():
                        raise UnaskedError
                finally:
                    await self._give_back()
                    for one in watching:
                        one.cancel()
                    self._keeper.end()
                    await asyncio.wait({keeping}, timeout=PATIENCE)
        finally:
            recording.cancel()
            await asyncio.wait({recording}, timeout=PATIENCE)

    async def _unless_it_ends(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait({task})
        self.working.stop()  # and let nothing go on that is not renewed, or not recorded
        self._held.lose([one.token for one in self._held.claims()], "the worker breaks off")
        await task  # raises what ended it
        raise UnaskedError

    async def _give_back(self) -> None:
        """What nobody began. Where that cannot be written in time, the leases lapse."""
        with suppress(TimeoutError, ClosedError):
            async with asyncio.timeout(PATIENCE):
                for claim in self._held.unbegun():
                    await self._recorder.release(claim, started=False)

    async def _when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.working.stop()
        if count := len(self._held) - len(self._held.unbegun()):
            log.info(
                "Stopping. Waiting for %d action%s, %g s at most; Ctrl-C again ends it at once.",
                count,
                "" if count == 1 else "s",
                self._options.grace.total_seconds(),
            )

    def _heard(self, happened: Happened) -> None:
        if isinstance(happened, Passed):
            self._passed_at = monotonic()
        notice(happened)
        self._tell(happened)

    @property
    def in_flight(self) -> int:
        """How many attempts this worker holds the leases of."""
        return len(self._held)

    def reasons(self) -> list[str]:
        """Why this worker is not ready, as far as it knows by itself."""
        now = monotonic()
        found = {
            "pass": self._options.enabled and now - self._passed_at > STALE_PASS,
            "heartbeat": now - self._keeper.beaten_at > STALE_BEAT,
            "leases": now - self._held.renewed_at > SELF_STOP.total_seconds(),
        }
        return [reason for reason, holds in found.items() if holds]
