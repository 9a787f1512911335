"""What Procrastinate's worker asks for work.

An attempt comes from a claim of our own, made in one statement for all free slots; a maintenance
task from the stock queue of that name, in the one slot beside them. An idle worker waits for a
notification, for the next due time or for a second, whichever is first. No database error passes
from here: the worker would end of it, and ask again is all it can do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import Any

from procrastinate import JobContext
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import Error
from typing_extensions import override

from procession.queue.ahead import MAINTENANCE, maintenance_waits, seconds_to_next
from procession.queue.claim import Wanted, claim
from procession.queue.leases import Held
from procession.queue.pool import Pool
from procession.queue.types import Claim, Claimed, Passed, Tell, nobody

log = logging.getLogger(__name__)

POLL = 1.0  # seconds; the longest that anything due is overlooked
PASSING = (Error, ConnectorException, OSError)  # what passes by itself
ATTEMPT = "attempt"  # the task that performs a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker does, and what it shares with the rest of its process."""

    pool: Pool
    wanted: Wanted
    slots: int  # attempts at a time; none where the runner is switched off
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
        self._ready = deque[Claim]()
        self._served_last = ""
        self._bell = asyncio.Event()
        self._stopping = False
        self._maintained_at = 0.0
        self._next_due = 0.0  # when a run falls due, by this process's clock; the poll is sooner

    def ring(self) -> None:
        """There may be something to claim."""
        self._bell.set()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self.ring()

    def unstarted(self) -> list[Claim]:
        """What was claimed and is not to be started any more."""
        claims = list(self._ready)
        self._ready.clear()
        return claims

    @override
    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        while not self._stopping:
            # Before looking: what rings from here on is heard below; what is held now may go on.
            self._bell.clear()
            ends = not (self._work.wait or self._work.held)
            job = self._started() or await self._claimed() or await self._maintenance(worker_id)
            if job is not None or ends:
                return job
            await self._rest()
        return None

    def _started(self) -> Attempt | None:
        while self._ready and not self._stopping:
            one = self._ready.popleft()
            if not self._work.held.is_lost(one.token):
                return attempt_of(one)
            self._work.held.forget(one.token)
        return None

    async def _claimed(self) -> Attempt | None:
        """The first of what a claim for all free slots gave."""
        work = self._work
        free = work.slots - len(work.held)
        if free <= 0:
            if work.slots:
                work.tell(Passed())  # a pass waits for no action
            return None
        began = time_ns()
        try:
            async with work.pool.connection() as conn:
                claims = await claim(conn, work.wanted, free, self._served_last)
                if not claims:
                    self._falls_due(await seconds_to_next(conn))
        except PASSING as error:
            log.warning("Nothing could be claimed: %s", type(error).__name__)
            return None
        work.tell(Passed())
        if claims:
            work.held.add(claims)
            work.tell(Claimed(tuple(claims), began))
            self._served_last = claims[-1].tenant.slug
            self._ready.extend(claims)
        return self._started()

    def _falls_due(self, seconds: float | None) -> None:
        self._next_due = monotonic() + (POLL if seconds is None else seconds)

    async def _maintenance(self, worker_id: int) -> Job | None:
        now = monotonic()
        if self._stopping or now < self._maintained_at + POLL:
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
        try:
            async with asyncio.timeout(wait):
                await self._bell.wait()
        except TimeoutError:
            return

    @override
    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Forget an attempt: its outcome took the job along, or its lease will lapse."""
        if isinstance(job, Attempt):
            self._work.held.forget(job.token)
            self.ring()
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
                self.ring()

        while True:
            try:
                await super().listen_for_jobs(on_notification=hear, queues=None)
            except PASSING as error:
                log.warning("Job notifications are not heard: %s", type(error).__name__)
            self.ring()
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
        while not self._stopping:
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
