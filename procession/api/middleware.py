"""The door: before the caller is known, not even whether a path under /api exists is told.

It also keeps answers out of caches. Where a caller may go from here is `routes`.
"""

from dataclasses import dataclass
from typing import cast

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from procession.api.auth import identify
from procession.api.problems import answer_to
from procession.api.services import CALLER, Services
from procession.engine.errors import DatabaseUnavailableError, ProcessionError
from procession.queue.outage import OUTAGES


@dataclass(frozen=True, slots=True)
class Door:
    """The middleware around the whole application."""

    app: ASGIApp
    services: Services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = cast("str", scope.get("path", ""))
        if scope["type"] != "http" or not f"{path}/".startswith("/api/"):
            await self.app(scope, receive, send)
            return
        try:
            request = HTTPConnection(scope)
            scope[CALLER] = await identify(
                request, self.services.pool, self.services.control_tokens
            )
        except ProcessionError as error:
            await answer_to(error, path)(scope, receive, send)
        except OUTAGES:
            await answer_to(DatabaseUnavailableError(), path)(scope, receive, send)
        else:
            await self.app(scope, receive, _uncached(send))


def _uncached(send: Send) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Cache-Control"] = "no-store"
        await send(message)

    return marked
