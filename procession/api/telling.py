"""What a request tells of itself: a span, its lines in the logs, and the runs that it queued.

With traces on, what it causes belongs to its span: the traceparent that it is read to have sent is
the span's own. Runs are told of once the answer says that they stand, so after their commit.
"""

import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from procession.api.deps import CORRELATION, TRACEPARENT
from procession.outbound import spans
from procession.outbound.spans import Span, SpanKind
from procession.queue.start import noted
from procession.queue.types import About, Queued, Tell, about

log = logging.getLogger(__name__)

REFUSALS = 400  # and above: nothing stands of what was tried
FAULTS = 500
UNTRACED = {"/metrics", "/health/live", "/health/ready"}  # asked for all the time, by machines
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


@dataclass(frozen=True, slots=True)
class Telling:
    """The middleware around the whole application."""

    app: ASGIApp
    tell: Tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        correlation = headers.get("x-correlation-id", "")
        known = About(correlation=correlation if CORRELATION.fullmatch(correlation) else None)
        given = headers.get("traceparent", "")
        parent = given if TRACEPARENT.fullmatch(given) else None
        before = about.set(known)
        try:
            with _begun(scope, parent) as one:
                if here := spans.here():
                    MutableHeaders(scope=scope)["traceparent"] = here
                await self._told(one, scope, receive, send)
        finally:
            about.reset(before)

    async def _told(self, one: Span, scope: Scope, receive: Receive, send: Send) -> None:
        began = monotonic()

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = cast("int", message["status"])
                if triggers and status < REFUSALS:
                    self.tell(Queued(tuple(triggers)))
                _say(one, scope, status, began)
            await send(message)

        with noted() as triggers:
            await self.app(scope, receive, heard)


def _begun(scope: Scope, parent: str | None) -> AbstractContextManager[Span]:
    if scope["path"] in UNTRACED:
        return spans.NONE
    return spans.span(_method(scope), SpanKind.SERVER, parent=parent)


def _say(one: Span, scope: Scope, status: int, began: float) -> None:
    """By the path as it is declared: what stands in its holes is the tenant's."""
    method, route = _method(scope), scope.get("route")
    path = route.path if isinstance(route, Route) else ""
    if one.is_recording():
        one.update_name(f"{method} {path}".strip())
        one.set_attribute("http.request.method", method)
        one.set_attribute("http.response.status_code", status)
        if path:
            one.set_attribute("http.route", path)
        if status >= FAULTS:
            one.set_status(spans.StatusCode.ERROR)
    if log.isEnabledFor(logging.DEBUG):
        took = round((monotonic() - began) * 1000)
        log.debug("%s %s was answered %d in %d ms", method, path or "elsewhere", status, took)


def _method(scope: Scope) -> str:
    method = cast("str", scope["method"])
    return method if method in METHODS else "HTTP"
