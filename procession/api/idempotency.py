"""Idempotency-Key on a POST: a repeat is given the answer of the first one, and does nothing.

The key is held once all is known of the request but what it does. What the route does is one
transaction with its answer, on one connection: to wait for a second one with the first in hand
could stop all of them. A refusal did nothing; it is kept when the connection is back in the pool.
Of an answer that is too long to be kept, it is kept that what was asked for is done.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from procession.api.auth import Caller
from procession.api.problems import answer_to
from procession.api.services import Services
from procession.engine.errors import ConflictError, Fault, ValidationFailedError
from procession.queue import idempotency
from procession.queue.idempotency import Answer, Asked
from procession.queue.outage import OUTAGES
from procession.queue.pool import Connection

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEY = re.compile(r"[ -~]{1,200}")
OWN_RULE = frozenset({"run_workflow"})  # routes by name that read the header by a rule of their own
HELD = "procession.idempotency"  # of the request's scope: what is to be answered under its key
WRITING = "procession.idempotency.connection"  # the same: in whose transaction the route is
KEPT = "procession.idempotency.kept"  # the same: its answer is, if its commit is
# Whoever may not is not told so again once it may.
FINAL = frozenset(range(200, 500)) - {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
PLAIN = frozenset({b"content-length", b"cache-control"})  # made anew for each answer


async def repeated(
    request: Request, caller: Caller, services: Services, body: bytes
) -> Response | None:
    """The answer that a request with this key had; None when it is to be answered now."""
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    if len(given) > 1 or not KEY.fullmatch(given[0]):
        raise ValidationFailedError([Fault(HEADER, "must be 1 to 200 printable ASCII characters")])
    route = f"{request.method} {request.scope['path']}?{request.url.query}"
    one = idempotency.asked(caller.tenant, caller.actor, route, given[0], body)
    try:
        async with services.pool.connection() as conn:
            kept = await idempotency.hold(conn, one, services.ring)
    except OUTAGES:  # which may have come after it was held
        await _free(services, one)
        raise
    if kept is None:
        request.scope[HELD] = one
        return None
    headers = dict(kept.headers) | {REPLAYED: "true"}
    return Response(kept.body, kept.status, headers)


async def _free(services: Services, one: Asked) -> None:
    await services.later.write(services.pool, partial(idempotency.free, one=one))


@asynccontextmanager
async def together(scope: Scope, conn: Connection) -> AsyncGenerator[None]:
    """What a route does on this connection is one transaction, if it is under a key."""
    if HELD not in scope:
        yield
        return
    async with conn.transaction():
        scope[WRITING] = conn
        yield


async def keep(scope: Scope, answer: Response) -> None:
    """Keep what the route answers in the transaction of what it has done."""
    conn = cast("Connection | None", scope.pop(WRITING, None))
    if conn is None or answer.status_code not in FINAL:
        return
    asked, services = cast("Asked", scope[HELD]), cast("Services", scope["app"].state.services)
    if len(answer.body) > idempotency.LONGEST:
        answer = _mark(answer, scope)
    kept = _answer(answer.status_code, answer.raw_headers, bytes(answer.body))
    if not await idempotency.keep(conn, asked, services.ring, kept):
        raise ConflictError("idempotency-key-in-progress", "It took so long that another has it.")
    scope[KEPT] = True


def _mark(answer: Response, scope: Scope) -> Response:
    """What a repeat is told where the answer is too long: that it was done, and what it made."""
    extras: dict[str, object] = {"answered": answer.status_code}
    if location := answer.headers.get("location"):
        extras["location"] = location
    detail = "A repeat does nothing. Read what it is about to see how it is by now."
    return answer_to(ConflictError("idempotency-answer-too-long", detail, extras), scope)


def _answer(status: int, raw: Iterable[tuple[bytes, bytes]], body: bytes) -> Answer:
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in raw
        if name.lower() not in PLAIN
    ]
    return Answer(status, headers, body.decode())


@dataclass(slots=True)
class _Answering:
    """What a route sends, held back until it is kept, if it is under a key."""

    scope: Scope
    send: Send
    start: Message | None = None
    body: bytes = b""

    @property
    def asked(self) -> Asked | None:
        return cast("Asked | None", self.scope.get(HELD))

    @property
    def services(self) -> Services:
        return cast("Services", self.scope["app"].state.services)

    async def take(self, message: Message) -> None:
        if self.asked is None:
            await self.send(message)
        elif message["type"] == "http.response.start":
            self.start = message
        else:
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._end(self.asked)

    async def _end(self, asked: Asked) -> None:
        assert self.start is not None, "an answer begins with its status"
        status, services = cast("int", self.start["status"]), self.services
        is_kept = KEPT in self.scope
        if status not in FINAL or (not is_kept and len(self.body) > idempotency.LONGEST):
            await _free(services, asked)
        elif not is_kept:
            answer = _answer(status, self.start["headers"], self.body)
            keeping = partial(idempotency.keep, one=asked, ring=services.ring, answer=answer)
            await services.later.write(services.pool, keeping)
        await self.send(self.start)
        await self.send({"type": "http.response.body", "body": self.body})


async def kept(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the route answer. What it raises is no answer, so its key is free again."""
    answering = _Answering(scope, send)
    try:
        await app(scope, receive, answering.take)
    except Exception:
        if answering.asked is not None:
            await _free(answering.services, answering.asked)
        raise
