"""A route under /api: what must be settled before a byte of the body is read.

The order is the contract's: tenant, capability, size and media type, JSON, the thing in the path. A
route says what it needs by `dependencies=[needs("…")]`, and one that says nothing cannot be made.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from procession.api import body, idempotency
from procession.api.auth import Caller, enter, identify
from procession.api.services import CALLER, services_of
from procession.api.things import Thing
from procession.engine.errors import Fault, ForbiddenError, ValidationFailedError
from procession.queue.types import about

PROMPT = 0.1  # seconds; a body that takes longer may outlast what its caller was let in by


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of its caller. Found on the route before the body is read."""

    capability: str | None = None
    above: bool = False  # the route stands above the tenants
    thing: Thing | None = None  # that its path names, where a fault may be found in front of it

    def __call__(self) -> None:
        """Nothing is left to do once FastAPI gets here."""


def needs(capability: str | None, thing: Thing | None = None) -> Any:  # noqa: ANN401 - as FastAPI types its Depends
    """Only for callers that hold it; None lets any caller of the tenant in."""
    return Depends(Need(capability, thing=thing))


def above_tenants(capability: str | None = None) -> Any:  # noqa: ANN401 - as FastAPI types its Depends
    """For a route that names its tenant in the path, or none; it looks at the caller itself too."""
    return Depends(Need(capability, above=True))


class Route(APIRoute):
    """A route with its checks in front."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        need = need_of(self)
        reads = body.takes_body(self.openapi_extra)
        asks = need.thing is not None or not self.param_convertors  # it may have a query
        keyed = "POST" in (self.methods or ()) and self.name not in idempotency.OWN_RULE

        async def checked(request: Request) -> Response:
            services = services_of(request)
            caller = await _admit(request, cast("Caller", request.scope[CALLER]), need)
            body.check(request, services.max_body_bytes)
            raw = b""
            if reads:
                begun = monotonic()
                raw = await body.receive(request, services.max_body_bytes)
                if monotonic() - begun > PROMPT:
                    caller = await _admit(request, await identify(request, services), need)
                request.scope[body.DOCUMENT] = body.decode(raw, services.max_body_bytes)
                request.scope[body.SIZE] = len(raw)
            try:
                if asks:
                    _look_at_query(request)
                if keyed and (kept := await idempotency.repeated(request, caller, services, raw)):
                    return kept
                answer = await handler(request)
            except (ValidationFailedError, RequestValidationError):
                await _look_for(need.thing, request, caller)
                raise
            await idempotency.keep(request.scope, answer)
            return answer

        return checked

    @override
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await idempotency.kept(super().handle, scope, receive, send)


async def _admit(request: Request, caller: Caller, need: Need) -> Caller:
    """The caller in its tenant, if it may come in here."""
    caller = await enter(request, caller, services_of(request).pool, above=need.above)
    request.scope[CALLER] = caller
    about.set(replace(about.get(), tenant=caller.tenant or None))
    if need.capability is not None and need.capability not in caller.capabilities:
        raise ForbiddenError(need.capability)
    return caller


async def _look_for(thing: Thing | None, request: Request, caller: Caller) -> None:
    """Refuse what the path names and is not there, which comes before what was sent."""
    if thing is None:
        return
    services = services_of(request)
    async with services.shares.connection(services.pool, caller.tenant) as conn:
        with suppress(ValueError):  # the path itself is the fault
            await thing(conn, caller, request.path_params)


def _look_at_query(request: Request) -> None:
    """Refuse what the database would not take, and what only the last of two would be read of."""
    items = request.query_params.multi_items()
    faults = [Fault(name, body.NUL) for name, value in items if "\0" in name + value]
    named = Counter(name for name, _ in items)
    faults += [Fault(name, "comes more than once") for name, times in named.items() if times > 1]
    if faults:
        raise ValidationFailedError(faults)


def need_of(route: APIRoute) -> Need:
    """What this route asks of its caller."""
    for one in route.dependencies:
        if isinstance(one.dependency, Need):
            return one.dependency
    raise TypeError("A route under /api says what it needs of its caller.")


def api_router(tag: str) -> APIRouter:
    """The router of one resource."""
    return APIRouter(prefix="/api", route_class=Route, tags=[tag])
