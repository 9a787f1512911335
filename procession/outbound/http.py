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
from collections.abc import Awaitable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Self, Unpack

import httpcore2 as httpcore

from procession.outbound.answer import Answer, HttpReply
from procession.outbound.breaker import BreakerRule, Breakers, is_good
from procession.outbound.call import Options, message, request, spanned
from procession.outbound.capture import WHOLE
from procession.outbound.connections import Connections, Owner
from procession.outbound.faults import ConnectionFailed, ConnectionLost, Fault
from procession.outbound.guard import Guard, Network, Target, target
from procession.outbound.headers import encoded
from procession.outbound.progress import PROGRESS, Progress
from procession.outbound.resolve import Resolve, Resolver
from procession.outbound.retry import REPLAYED, SAFE, Retries, Sleep, Tries

NOBODY = Owner("")  # the operator's own calls are no tenant's

logging.getLogger("httpcore2").setLevel(logging.WARNING)  # it logs headers, and so credentials


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator decides."""

    allowed: tuple[Network, ...] = ()  # beyond what the guard allows
    tries: Tries = field(default_factory=Tries)
    breaker: BreakerRule = field(default_factory=BreakerRule)


class Client:
    """The calls of a process. Tenants share neither its connections nor its breakers."""

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
            (lambda _: resolve) if resolve else self._resolver.of,
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
        with spanned(method, aim) as one:
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
        sent = request(method, aim, *message(method, options))
        with spanned(method, aim) as one:
            reply = await self._try(NOBODY, aim, sent, within, progress)
            one.set_attribute("http.response.status_code", reply.status)
        await reply.aclose()
        return Answer(reply.status, reply.headers, b"")

    async def _reply(
        self, tenant: str, method: str, aim: Target, options: Options
    ) -> tuple[HttpReply, int]:
        headers, body = message(method, options)
        keyed = any(name.lower() == b"idempotency-key" for name, _ in headers)
        again = options.get("resend", method in SAFE or keyed)
        retries: Retries[HttpReply] = Retries(  # as Retries[HttpReply] it takes twice as long
            self._tries,
            resend=again,
            replay=len(body) <= REPLAYED,
            sleep=self._sleep,
        )
        each_try, each = options.get("each_try"), self._tries.each
        owner = Owner(tenant, options.get("owner"))

        def once() -> Awaitable[HttpReply]:
            fresh = encoded(each_try()) if each_try else []
            sent = request(method, aim, headers + fresh, body)
            return self._try(owner, aim, sent, each, Progress(again=again))

        with self._breakers.call(tenant, aim.host) as call:
            try:
                reply = await retries.send(once)
            except Fault as fault:
                fault.tries = retries.made
                raise
            asked = reply.retry_after
            too_patient = asked is not None and asked > self._tries.longest_retry_after
            call.good = is_good(reply.status, too_patient=too_patient)
        return reply, retries.made

    async def _try(
        self,
        owner: Owner,
        aim: Target,
        request: httpcore.Request,
        within: timedelta,
        progress: Progress,
    ) -> HttpReply:
        """One sending, until the headers of the answer."""
        PROGRESS.set(progress)
        try:
            async with asyncio.timeout(within.total_seconds()):
                # the other side may just be closing one that was kept: who can tell what it took?
                take = self._connections.take if progress.again else self._connections.open
                connection = await take(owner, aim)
                response = await connection.handle_async_request(request)
                progress.answered = True
        except TimeoutError:
            raise progress.fault(aim.host) from None
        except httpcore.LocalProtocolError:
            raise ValueError("A header that may not be sent") from None
        except (httpcore.NetworkError, httpcore.ProtocolError):
            raise (ConnectionLost if progress.went else ConnectionFailed)(aim.host) from None
        give_back = partial(self._connections.give_back, owner, aim, connection)
        return HttpReply(response, progress, give_back)


class TenantClient:
    """What an action calls out with."""

    def __init__(self, client: Client, tenant: str, owner: Hashable = None) -> None:
        self._client = client
        self._tenant = tenant
        self._owner = owner

    def owned_by(self, owner: Hashable) -> "TenantClient":
        """The client whose connections carry what this one of the tenant sends, and no more."""
        return TenantClient(self._client, self._tenant, owner)

    async def request(self, method: str, url: str, **options: Unpack[Options]) -> Answer:
        """The answer, whatever its status; raises a fault when there is none."""
        options.setdefault("owner", self._owner)
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
