"""Procrastinate's app and worker, with our manager in the place of theirs.

The app that the plain `procrastinate` command is pointed at makes its pool when it is opened, and
hands over to the worker that it was given.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Unpack

from procrastinate import App, JobContext, PsycopgConnector, cli
from procrastinate.app import WorkerOptions
from procrastinate.worker import Worker
from typing_extensions import override

from procession.queue.ahead import MAINTENANCE
from procession.queue.manager import ATTEMPT, POLL, Manager, Work
from procession.queue.pool import Pool

log = logging.getLogger("procrastinate.cli")  # whose text it is, masked as a library's

NEVER = 1e9  # seconds; an attempt is not aborted by a row of its job, but cancelled by its run's


class Jobs(App):
    """What `procrastinate --app` is pointed at."""

    def __init__(
        self, make: Callable[[], Pool], work: Callable[[Pool, WorkerOptions], Awaitable[None]]
    ) -> None:
        def ours(**_: object) -> Pool:
            cli.print_stderr = _print  # pyright: ignore[reportAttributeAccessIssue]  past all logs
            return make()  # whatever arguments Procrastinate would give its own

        super().__init__(connector=PsycopgConnector(pool_factory=ours))  # pyright: ignore[reportUnknownMemberType]  a bare dict there
        self._work = work

    @override
    async def run_worker_async(self, **options: Unpack[WorkerOptions]) -> None:
        connector = self.connector
        assert isinstance(connector, PsycopgConnector)
        await self._work(connector.pool, options)


def _print(text: str) -> None:
    """In the place of a bare line on standard error, which no reader of a log expects."""
    log.log(logging.INFO if text.startswith("Launching a worker") else logging.ERROR, "%s", text)


@dataclass(frozen=True, slots=True)
class Chore:
    """A task of maintenance: one of all workers performs it at each tick, in a slot for it."""

    name: str
    cron: str | None  # None: others ask for it, and any worker may be given it
    task: Callable[[JobContext, int], Awaitable[None]]


class Working:
    """A stock worker that performs claims by a task. Chores have slots that those cannot take."""

    def __init__(
        self,
        work: Work,
        task: Callable[[JobContext], Awaitable[None]],
        context: dict[str, object],
        grace: timedelta,
        chores: Sequence[Chore] = (),
    ) -> None:
        self._pool = work.pool
        self._intake = work.intake
        self._app = App(connector=PsycopgConnector())
        self._app.task(name=ATTEMPT, pass_context=True)(task)
        for one in chores:  # no lock: one that a dead worker left in doing would hold it for ever
            chore = self._app.task(
                name=one.name, queue=MAINTENANCE, queueing_lock=one.name, pass_context=True
            )(one.task)
            if one.cron is not None:
                self._app.periodic(cron=one.cron)(chore)
        self._app.job_manager = Manager(self._app.connector, work)
        self._worker = Worker(
            self._app,
            concurrency=work.intake.slots + max(1, len(chores)),
            wait=work.wait,
            fetch_job_polling_interval=POLL,
            abort_job_polling_interval=NEVER,
            delete_jobs="successful",
            additional_context=context,
            shutdown_graceful_timeout=grace.total_seconds(),
            install_signal_handlers=False,
        )

    async def run(self) -> None:
        """Work until asked to stop, or until nothing is due where that is what was asked for."""
        async with self._app.open_async(self._pool):
            await self._worker.run()

    def stop(self) -> None:
        """Claim nothing more, and end once what is in flight has."""
        self._intake.close()
        self._worker.stop()
