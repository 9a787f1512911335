"""The door: before the caller is known, not even whether a path under /api exists is told.

It also names every request, and keeps answers out of caches. Where a caller may go from here is
`routes`.
"""

from dataclasses import dataclass, replace
from typing import cast
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from procession.api.auth import identify
from procession.api.deps import TRACEPARENT
from procession.api.problems import TRACE_ID, answer_to
from procession.api.services import CALLER, Services
from procession.engine.errors import DatabaseUnavailableError, ProcessionError
from procession.queue.outage import OUTAGES
from procession.queue.types import about


@dataclass(frozen=True, slots=True)
class Door:
    """The middleware around the whole application."""

    app: ASGIApp
    services: Services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        scope[TRACE_ID] = _trace_id(request.headers)
        about.set(replace(about.get(), trace_id=scope[TRACE_ID]))  # until the request is over
        if not f"{cast('str', scope['path'])}/".startswith("/api/"):
            await self.app(scope, receive, send)
            return
        try:
            scope[CALLER] = await identify(request, self.services)
        except ProcessionError as error:
            await answer_to(error, scope)(scope, receive, send)
        except OUTAGES:
            await answer_to(DatabaseUnavailableError(), scope)(scope, receive, send)
        else:
            await self.app(scope, receive, _uncached(send))


def _trace_id(headers: Headers) -> str:
    """That of the trace which the caller has begun, or one of its own."""
    given = headers.get("traceparent", "")
    return given.split("-")[1] if TRACEPARENT.fullmatch(given) else uuid4().hex


def _uncached(send: Send) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Cache-Control"] = "no-store"
        await send(message)

    return marked
