"""Whether a process lives, and why it is not ready."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from procession.api.scrape import Scrape
from procession.app.server import Address, listening
from procession.queue import first_key
from procession.queue.migrate import unusable
from procession.queue.outage import FAULTS, UNFIT
from procession.queue.pool import Pool
from procession.queue.sealing import Ring

log = logging.getLogger(__name__)

PATIENCE = 2.0  # seconds for the database to answer
LOOKS = 10.0  # seconds between two for the API's key, whether or not somebody asks


@dataclass(frozen=True, slots=True)
class Health:
    """The two routes, on top of what a process says of itself."""

    reasons: Callable[[], Awaitable[list[str]]]

    async def live(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "live"})

    async def ready(self, _: Request) -> JSONResponse:
        if reasons := await self.reasons():
            return JSONResponse({"status": "not-ready", "reasons": reasons}, status_code=503)
        return JSONResponse({"status": "ready"})

    def routes(self) -> list[Route]:
        return [Route("/health/live", self.live), Route("/health/ready", self.ready)]


@asynccontextmanager
async def serve_health(
    host: str, port: int, health: Health, scrape: Scrape
) -> AsyncGenerator[Address]:
    """Answer for a process that serves nothing else, and let its metrics be read."""

    async def metrics(request: Request) -> Response:
        return scrape.answer_to(request.headers)

    app = Starlette(routes=[*health.routes(), Route("/metrics", metrics)])
    async with listening(app, Address(host, port), grace=1) as address:
        yield address


async def of_database(pool: Pool) -> list[str]:
    """`database` when it has not answered in time, `schema` when it is not one for this release."""

    async def look() -> list[str]:
        async with pool.connection(PATIENCE) as conn:
            return ["schema"] if await unusable(conn) else []

    return await _in_time(look())


# Those that a server that stands still has not answered. A statement that is cancelled waits for
# the server to agree, so that they are left to themselves instead.
_left = set[asyncio.Task[list[str]]]()


async def _in_time(look: Coroutine[None, None, list[str]]) -> list[str]:
    task = asyncio.create_task(look)
    _left.add(task)
    task.add_done_callback(_left.discard)
    await asyncio.wait({task}, timeout=PATIENCE)
    if not task.done():
        task.add_done_callback(_unheard)
        return ["database"]
    try:
        return task.result()
    except UNFIT:
        return ["schema"]
    except FAULTS:
        return ["database"]


def _unheard(task: asyncio.Task[list[str]]) -> None:
    if not task.cancelled():
        task.exception()


class Keys:
    """Whether a worker can read what the API seals."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lacks = False

    async def reasons(self, pool: Pool) -> list[str]:
        """`secrets` while it lacks the API's first key; logged when that begins."""
        return await _in_time(self._look(pool))

    @asynccontextmanager
    async def watched(self, pool: Pool) -> AsyncGenerator[None]:
        """Look now and then, though nobody asks, so that it is logged all the same."""
        task = asyncio.create_task(self._watch(pool))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self, pool: Pool) -> None:
        while True:
            await self.reasons(pool)
            await asyncio.sleep(LOOKS)

    async def _look(self, pool: Pool) -> list[str]:
        async with pool.connection(PATIENCE) as conn:
            digest = await first_key.noted(conn)
        lacks = digest is not None and not self._ring.holds(digest)
        if lacks and not self._lacks:
            log.error("SECRETS__KEYS lacks the key that the API seals with, its first one")
        self._lacks = lacks
        return ["secrets"] if lacks else []
