"""The one client for every HTTP call that leaves.

HTTP/1.1 to an address that the guard let through; no redirects, no cookies, no proxy that the
environment names, no more of an answer than was asked for. A call is either answered, whatever the
status, or raises one of the faults.

It stands on httpcore's HTTP over connections of ours, and on httpx for reading addresses: the rest
of httpx would double what a call costs, for redirects, cookies and proxies that are not wanted.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Self, TypedDict, Unpack

import httpcore2 as httpcore
import msgspec

from procession.outbound.answer import Answer, HttpReply
from procession.outbound.breaker import BreakerRule, Breakers, is_good
from procession.outbound.capture import WHOLE, Capture
from procession.outbound.connections import Connections
from procession.outbound.faults import ConnectionLost, Fault
from procession.outbound.guard import Guard, Network, Target, target
from procession.outbound.headers import encoded, with_ours
from procession.outbound.resolve import Resolve, Resolver
from procession.outbound.retry import REPLAYED, SAFE, Retries, Sleep, Tries
from procession.outbound.spans import Attributes, Span, SpanKind, span
from procession.outbound.stream import PROGRESS, Progress

logging.getLogger("httpcore2").setLevel(logging.WARNING)  # it logs headers, and so credentials

Headers = Mapping[str, str]


class Options(TypedDict, total=False):
    """What a call may say beside its method and address."""

    headers: Headers
    each_try: Callable[[], Headers]  # headers that are made anew for every try
    content: bytes
    json: object
    capture: Capture
    resend: bool  # whether a request that may have arrived may be sent once more


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator decides."""

    allowed: tuple[Network, ...] = ()  # beyond what the guard allows
    tries: Tries = field(default_factory=Tries)
    breaker: BreakerRule = field(default_factory=BreakerRule)


class Client:
    """The calls of a process. Tenants share its connections, and have breakers of their own."""

    def __init__(
        self,
        rules: Rules,
        *,
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._tries = rules.tries
        self._breakers = Breakers(rules.breaker)
        self._resolver = Resolver()
        self._sleep = sleep
        self._connections = Connections(
            Guard(rules.allowed),
            resolve or self._resolver,
            ssl_context or httpcore.default_ssl_context(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connections.aclose()
        self._resolver.close()

    def of(self, tenant: str) -> "TenantClient":
        """The client as the actions of this tenant have it."""
        return TenantClient(self, tenant)

    async def request(
        self, tenant: str, method: str, url: str, **options: Unpack[Options]
    ) -> Answer:
        """Call, try again what may be, and read as much of the answer as the capture takes."""
        aim = target(url)
        with _span(method, aim) as one:
            reply, tries = await self._reply(tenant, method, aim, options)
            one.set_attribute("http.response.status_code", reply.status)
            one.set_attribute("http.request.resend_count", tries - 1)
            try:
                content = await reply.read(options.get("capture", WHOLE), aim.host)
            except Fault as fault:
                fault.tries, fault.status = tries, reply.status
                raise
            finally:
                await reply.aclose()
        return Answer(reply.status, reply.headers, content, tries)

    async def once(
        self,
        method: str,
        url: str,
        *,
        within: timedelta,
        progress: Progress,
        **options: Unpack[Options],
    ) -> Answer:
        """One try in a time of its own, past the breakers; nothing of the body is read."""
        aim = target(url)
        request = _request(method, aim, *_message(method, options))
        with _span(method, aim) as one:
            reply = await self._try(aim, request, within, progress)
            one.set_attribute("http.response.status_code", reply.status)
        await reply.aclose()
        return Answer(reply.status, reply.headers, b"")

    async def _reply(
        self, tenant: str, method: str, aim: Target, options: Options
    ) -> tuple[HttpReply, int]:
        headers, body = _message(method, options)
        keyed = any(name.lower() == b"idempotency-key" for name, _ in headers)
        retries = Retries[HttpReply](
            self._tries,
            resend=options.get("resend", method in SAFE or keyed),
            replay=len(body) <= REPLAYED,
            sleep=self._sleep,
        )
        each_try, each = options.get("each_try"), self._tries.each

        def once() -> httpcore.Request:
            fresh = encoded(each_try()) if each_try else []
            return _request(method, aim, headers + fresh, body)

        with self._breakers.call(tenant, aim.host) as call:
            try:
                reply = await retries.send(lambda: self._try(aim, once(), each, Progress()))
            except Fault as fault:
                fault.tries = retries.made
                raise
            asked = reply.retry_after
            too_patient = asked is not None and asked > self._tries.longest_retry_after
            call.good = is_good(reply.status, too_patient=too_patient)
        return reply, retries.made

    async def _try(
        self, aim: Target, request: httpcore.Request, within: timedelta, progress: Progress
    ) -> HttpReply:
        """One sending, until the headers of the answer."""
        PROGRESS.set(progress)
        try:
            async with asyncio.timeout(within.total_seconds()):
                connection = await self._connections.take(aim)
                response = await connection.handle_async_request(request)
                progress.answered = True
        except TimeoutError:
            raise progress.fault(aim.host) from None
        except httpcore.LocalProtocolError:
            raise ValueError("A header that may not be sent") from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            raise ConnectionLost(aim.host) from None
        return HttpReply(response, partial(self._connections.give_back, aim, connection))


def _span(method: str, aim: Target) -> AbstractContextManager[Span]:
    """The call as traces have it: to whom, and no more of the address."""
    about: Attributes = {
        "http.request.method": method,
        "url.scheme": aim.scheme.decode(),
        "server.address": aim.host,
        "server.port": aim.port,
    }
    return span(method, SpanKind.CLIENT, attributes=about)


def _message(method: str, options: Options) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The headers and bytes that are the same for every try."""
    given = dict(options.get("headers", {}))
    body = options.get("content", b"")
    if "json" in options:
        body = msgspec.json.encode(options["json"])
        given.setdefault("Content-Type", "application/json")
    headers = encoded(with_ours(given))
    if body or method in ("POST", "PUT", "PATCH"):
        headers.append((b"Content-Length", str(len(body)).encode()))
    return headers, body


def _request(
    method: str, aim: Target, headers: list[tuple[bytes, bytes]], body: bytes
) -> httpcore.Request:
    return httpcore.Request(
        method,
        httpcore.URL(scheme=aim.scheme, host=aim.host, port=aim.port, target=aim.path),
        headers=[(b"Host", aim.authority), *headers],
        content=body,
    )


class TenantClient:
    """What an action calls out with."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._client = client
        self._tenant = tenant

    async def request(self, method: str, url: str, **options: Unpack[Options]) -> Answer:
        """The answer, whatever its status; raises a fault when there is none."""
        return await self._client.request(self._tenant, method.upper(), url, **options)

    @property
    def untried(self) -> Client:
        """The client of all tenants, for a caller with tries of its own."""
        return self._client

    async def get(self, url: str, **options: Unpack[Options]) -> Answer:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Unpack[Options]) -> Answer:
        return await self.request("POST", url, **options)

    async def put(self, url: str, **options: Unpack[Options]) -> Answer:
        return await self.request("PUT", url, **options)

    async def patch(self, url: str, **options: Unpack[Options]) -> Answer:
        return await self.request("PATCH", url, **options)

    async def delete(self, url: str, **options: Unpack[Options]) -> Answer:
        return await self.request("DELETE", url, **options)
