"""What routes ask for: a connection, the caller, where the request came from, and paging."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator, Field
from starlette.datastructures import Headers

from procession.api import idempotency
from procession.api.auth import Caller as KnownCaller
from procession.api.services import CALLER, services_of
from procession.engine.access import Actor
from procession.engine.precondition import Precondition
from procession.queue.audit import By
from procession.queue.pool import Connection
from procession.queue.runs import Span
from procession.queue.start import Origin

TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
CORRELATION = re.compile(r"[ -~]{1,128}")
DIGITS = re.compile(r"[0-9]+")
LAST_PAGE = 999_999_999  # with any size of a page, an offset that Postgres takes


@asynccontextmanager
async def connected(request: Request) -> AsyncGenerator[Connection]:
    """A connection for as long as the block takes, for a route that cannot hold one throughout."""
    services, tenant = services_of(request), _caller(request).tenant
    async with (
        services.shares.connection(services.pool, tenant) as conn,
        idempotency.together(request.scope, conn),
    ):
        yield conn


async def _connection(request: Request) -> AsyncIterator[Connection]:
    async with connected(request) as conn:
        yield conn


# "function": the connection goes back before the answer is sent, not when a slow client has read it
Database = Annotated[Connection, Depends(_connection, scope="function")]


def _caller(request: Request) -> KnownCaller:
    return cast("KnownCaller", request.scope[CALLER])


Caller = Annotated[KnownCaller, Depends(_caller)]


def _tenant(caller: Caller) -> str:
    return caller.tenant


Tenant = Annotated[str, Depends(_tenant)]


def _by(request: Request, caller: Caller) -> By:
    return By(caller.actor, request.client.host if request.client else None)


Author = Annotated[By, Depends(_by)]  # for the audit log


@dataclass(frozen=True, slots=True)
class Trace:
    """What a request says of where it belongs; kept on the runs that it fires."""

    correlation_id: str | None = None
    traceparent: str | None = None


def _trace(request: Request) -> Trace:
    """Whatever is not of the right form is left aside, as if it had not been sent."""
    correlation = request.headers.get("x-correlation-id", "")
    traceparent = request.headers.get("traceparent", "")
    return Trace(
        correlation if CORRELATION.fullmatch(correlation) else None,
        traceparent if TRACEPARENT.fullmatch(traceparent) else None,
    )


Tracing = Annotated[Trace, Depends(_trace)]


@dataclass(frozen=True, slots=True)
class Calling:
    """All of a request that a change wants to know of whoever makes it."""

    caller: KnownCaller
    by: By
    trace: Trace
    headers: Headers

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def origin(self) -> Origin:
        trace = self.trace
        return Origin(self.caller.actor, trace.correlation_id, trace.traceparent)

    @property
    def precondition(self) -> Precondition:
        """What If-Match and If-None-Match ask; its checks refuse what cannot be read."""
        headers = self.headers
        return Precondition.of(headers.getlist("if-match"), headers.getlist("if-none-match"))


def _calling(request: Request, caller: Caller, by: Author, trace: Tracing) -> Calling:
    return Calling(caller, by, trace, request.headers)


Call = Annotated[Calling, Depends(_calling)]


def digits(value: object) -> object:
    if isinstance(value, str) and not DIGITS.fullmatch(value):
        raise ValueError("must be a whole number")
    return value


# The bounds stand inside: outside of a validator, the description would not know their names.
Page = Annotated[int, Field(ge=1, le=LAST_PAGE)]
PageSize = Annotated[int, Field(ge=1, le=100)]


@dataclass(frozen=True, slots=True)
class Paging:
    """Which part of a list is asked for."""

    page: int
    page_size: int

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.page_size

    @property
    def span(self) -> Span:
        return Span(limit=self.page_size, offset=self.offset)


def _paging(
    page: Annotated[Page, BeforeValidator(digits), Query()] = 1,
    page_size: Annotated[PageSize, BeforeValidator(digits), Query(alias="pageSize")] = 50,
) -> Paging:
    return Paging(page, page_size)


Part = Annotated[Paging, Depends(_paging)]


def on_the_wire(actor: Actor) -> dict[str, str]:
    """An actor as answers and rows show it: without what is only for templates."""
    return {"kind": actor.kind.value, "id": actor.id, "name": actor.name}
