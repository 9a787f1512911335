"""How every process begins: its settings, its logs, a Postgres that answers, a schema that fits."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import NoReturn, TypeVar

import uvloop

from procession.actions.load import TakenError
from procession.app import logs
from procession.app.checks import read_or_exit
from procession.app.environment import unknown
from procession.app.plain import plain_lines
from procession.app.refusal import RefusalError
from procession.app.settings import Process, Settings
from procession.queue.fingerprint import COUNTERPART, Role, meet
from procession.queue.migrate import MigrationError
from procession.queue.outage import OUTAGES, REFUSED, why
from procession.queue.pool import Database, Pool
from procession.queue.reach import check_schema, out_of_reach
from procession.queue.sealing import Ring

log = logging.getLogger(__name__)

PAUSE = 2.0  # seconds between two looks for Postgres
REFUSALS = (RefusalError, MigrationError, TakenError)
T = TypeVar("T")


class AwayError(RefusalError):
    """Postgres has not answered for as long as it was waited for."""


class ApartError(RefusalError):
    """An API and a worker are set to different schemas, and would never meet."""

    status = 2


@contextmanager
def refusing() -> Generator[None]:
    """End the process with a line and a status, where what was asked cannot be done."""
    try:
        yield
    except REFUSALS as refusal:
        _end(str(refusal), refusal.status if isinstance(refusal, RefusalError) else 1)
    except REFUSED as error:
        _end(why(error))
    except ExceptionGroup as group:  # of what goes on beside something else
        refusals, others = group.split(REFUSALS)
        if refusals is None or others is not None:
            raise
        with refusing():
            raise refusals.exceptions[0] from None


def _end(reason: str, status: int = 1) -> NoReturn:
    sys.stderr.write(plain_lines(f"procession: {reason}\n"))
    raise SystemExit(status) from None


def run(work: Coroutine[None, None, T]) -> T:
    """Run it on the faster loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def begin(process: Process, **instead: str) -> Settings:
    """Read the settings or exit, set up the logs, and say what is odd about the environment."""
    settings = read_or_exit(process, **instead)
    logs.set_up(settings.log__level, settings.log__format)
    for sentence in unknown(Settings, os.environ):
        log.warning(sentence)
    if networks := settings.outbound__allowed_networks:
        log.warning(
            "Calls to %s are allowed (OUTBOUND__ALLOWED_NETWORKS): for development only",
            ", ".join(str(one) for one in networks),
        )
    return settings


async def arrive(database: Database, stop: asyncio.Event, patience: float = float("inf")) -> bool:
    """Wait until Postgres answers; False when a stop was asked for meanwhile."""
    end = time.monotonic() + patience
    while reason := await out_of_reach(database):
        if time.monotonic() >= end:
            raise AwayError(f"{reason}. So it has been for {patience:g} s.")
        log.warning("%s. Trying again in %g s.", reason, PAUSE)
        if await _stopped(stop):
            return False
    return True


async def _stopped(stop: asyncio.Event) -> bool:
    """Whether a stop is asked for within the pause between two looks."""
    try:
        await asyncio.wait_for(stop.wait(), PAUSE)
    except TimeoutError:
        return False
    return True


async def arrive_and_check(
    database: Database, stop: asyncio.Event, patience: float = float("inf")
) -> bool:
    """The same; then refuse a schema that this release cannot work on."""
    if not await arrive(database, stop, patience):
        return False
    await check_schema(database)
    return True


async def join(pool: Pool, schema: str, process: Role, ring: Ring) -> None:
    """Say that this process works here; refuse when its counterpart does so elsewhere."""
    async with pool.connection() as conn:
        elsewhere = await meet(conn, schema, process, ring.digests)
    if elsewhere:
        raise ApartError(
            f"DATABASE__SCHEMA={schema}: the {COUNTERPART[process]} that shares a key of "
            f"SECRETS__KEYS with this {process} works in the schema {elsewhere}, so that they "
            "would never meet. Set both to the same schema. Two installations in one database "
            f"take keys of their own; if {elsewhere} is no longer in use, drop it."
        )


async def written(write: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
    """Write what a process begins with, once it can be; False when a stop was asked for first."""
    while reason := await _unwritten(write):
        log.warning("%s Trying again in %g s.", reason, PAUSE)
        if await _stopped(stop):
            return False
    return True


@asynccontextmanager
async def writing(
    write: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> AsyncGenerator[None]:
    """The same beside the block, which need not wait for it; what is refused then ends it too."""
    reason = await _unwritten(write)
    if not reason:
        yield
        return
    log.warning("%s What this process begins with is written then.", reason)
    later = asyncio.create_task(_later(write, stop))
    later.add_done_callback(lambda one: stop.set() if _has_failed(one) else None)
    try:
        yield
    finally:
        later.cancel()
        await asyncio.wait({later})
    if _has_failed(later):
        later.result()


async def _later(write: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    while not await _stopped(stop):
        if not await _unwritten(write):
            log.info("The database can be written to")
            return


async def _unwritten(write: Callable[[], Awaitable[None]]) -> str | None:
    """Write it, or say why that must wait."""
    try:
        await write()
    except OUTAGES as error:
        return why(error)
    return None


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None
