"""What Procrastinate's worker asks for work.

An attempt comes from a claim of our own, made in one statement for all free slots; a maintenance
task from the stock queue of that name, in the one slot beside them. An idle worker waits for a
notification, for the next due time or for a second, whichever is first. No database error passes
from here: the worker would end of it, and ask again is all it can do.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from procrastinate import JobContext
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import Error
from typing_extensions import override

from procession.queue.ahead import MAINTENANCE, maintenance_waits, seconds_to_next
from procession.queue.intake import Intake
from procession.queue.leases import Held
from procession.queue.pool import Pool
from procession.queue.types import Claim, Passed, Tell, nobody

log = logging.getLogger(__name__)

POLL = 1.0  # seconds; the longest that anything due is overlooked
PASSING = (Error, ConnectorException, OSError)  # what passes by itself
ATTEMPT = "attempt"  # the task that performs a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker does, and what it shares with the rest of its process."""

    pool: Pool
    intake: Intake
    held: Held
    tell: Tell = nobody
    wait: bool = True  # for more, once there is nothing due


class Attempt(Job):
    """The job of a claim. Its number is the lease's token, below zero: no job of the table.

    Procrastinate describes a job to its logger four times an attempt, whether it logs or not.
    """

    @property
    def token(self) -> int:
        assert self.id is not None
        return -self.id

    @override
    def log_context(self) -> dict[str, Any]:
        return {"id": self.id}

    call_string = ATTEMPT  # pyright: ignore[reportAssignmentType, reportIncompatibleVariableOverride]  a cached property there


def attempt_of(one: Claim) -> Attempt:
    """The job that Procrastinate runs for a claim."""
    return Attempt(
        id=-one.token, queue=one.tenant.slug, lock=None, queueing_lock=None, task_name=ATTEMPT
    )


def token_of(context: JobContext) -> int:
    """The lease's token of an attempt that is to be performed."""
    assert isinstance(context.job, Attempt)
    return context.job.token


class Manager(JobManager):
    """Procrastinate's view of the runs."""

    def __init__(self, connector: BaseConnector, work: Work) -> None:
        super().__init__(connector)
        self._work = work
        self._intake = work.intake
        self._maintained_at = 0.0
        self._next_due = 0.0  # when a run falls due, by this process's clock; the poll is sooner

    @override
    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        while self._intake.is_open:
            self._intake.listen()
            ends = not (self._work.wait or self._work.held)  # what is held now may go on
            job = self._begun() or await self._claimed() or await self._maintenance(worker_id)
            if job is not None or ends:
                return job
            await self._rest()
        return None

    def _begun(self) -> Attempt | None:
        one = self._intake.next()
        return None if one is None else attempt_of(one)

    async def _claimed(self) -> Attempt | None:
        """The first of what a claim for all free slots gave."""
        work = self._work
        if self._intake.free <= 0:
            if self._intake.slots:
                work.tell(Passed())  # a pass waits for no action
            return None
        try:
            async with work.pool.connection() as conn:
                if not await self._intake.claim(conn):
                    self._falls_due(await seconds_to_next(conn))
        except PASSING as error:
            log.warning("Nothing could be claimed: %s", type(error).__name__)
            return None
        return self._begun()

    def _falls_due(self, seconds: float | None) -> None:
        self._next_due = monotonic() + (POLL if seconds is None else seconds)

    async def _maintenance(self, worker_id: int) -> Job | None:
        now = monotonic()
        if not self._intake.is_open or now < self._maintained_at + POLL:
            return None
        self._maintained_at = now
        try:
            async with self._work.pool.connection() as conn:
                if not await maintenance_waits(conn):
                    return None
            return await super().fetch_job([MAINTENANCE], worker_id)
        except PASSING as error:
            log.warning("No maintenance task could be fetched: %s", type(error).__name__)
            return None

    async def _rest(self) -> None:
        """Until the bell rings, something falls due, or it is time to look anyway."""
        wait = POLL
        if 0 < (until := self._next_due - monotonic()) < POLL:
            wait = until
        await self._intake.rest(wait)

    @override
    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """An attempt's outcome took the job along, or its lease will lapse. Its slot is free."""
        if isinstance(job, Attempt):
            self._intake.ring()
            return
        try:
            await super().finish_job(job, status, delete_job)
        except PASSING as error:
            log.warning("A maintenance task could not be ended: %s", type(error).__name__)

    @override
    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Hear of new jobs for as long as the worker works, however often the database goes."""

        async def hear(*, channel: str, notification: Notification) -> None:  # noqa: ARG001  a callback's
            if notification["type"] == "job_inserted":
                self._intake.ring()

        while True:
            try:
                await super().listen_for_jobs(on_notification=hear, queues=None)
            except PASSING as error:
                log.warning("Job notifications are not heard: %s", type(error).__name__)
            self._intake.ring()
            await asyncio.sleep(POLL)

    @override
    async def update_heartbeat(self, worker_id: int) -> None:
        try:
            await super().update_heartbeat(worker_id)
        except PASSING as error:
            log.warning("Procrastinate's heartbeat failed: %s", type(error).__name__)

    @override
    async def defer_periodic_job(
        self, job: Job, periodic_id: str, defer_timestamp: int
    ) -> int | None:
        try:
            return await super().defer_periodic_job(job, periodic_id, defer_timestamp)
        except PASSING as error:
            log.warning("A maintenance task could not be queued: %s", type(error).__name__)
            return None

    @override
    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:
        try:
            return await super().prune_stalled_workers(seconds_since_heartbeat)
        except PASSING as error:
            log.warning("Procrastinate's old rows stay: %s", type(error).__name__)
            return []

    @override
    async def register_worker(self) -> int:
        """Procrastinate's row of this worker; it matters to maintenance tasks only."""
        while self._intake.is_open:
            try:
                return await super().register_worker()
            except PASSING as error:
                log.warning("The worker waits for the database: %s", type(error).__name__)
                await asyncio.sleep(POLL)
        return 0  # asked to stop before it began: there is no such row

    @override
    async def unregister_worker(self, worker_id: int) -> None:
        try:
            await super().unregister_worker(worker_id)
        except PASSING as error:
            log.warning("Procrastinate's row of the worker stays: %s", type(error).__name__)
