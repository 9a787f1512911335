"""Checks of a long body, which take so long that they would hold up everybody else's requests.

They have a thread, and take turns: many of them at once would leave the loop too little of the
interpreter. The tenants are let in one after another: whoever asks for much waits behind
himself. No connection is held meanwhile, or a few such bodies would hold all there are.
"""

import asyncio
from asyncio import to_thread
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from procession.api import body
from procession.api.deps import Tenant
from procession.api.services import services_of

T = TypeVar("T")

LIGHT = 4_096  # bytes of a body that nobody notices


@dataclass(frozen=True, slots=True)
class Beside:
    """Where what this request asks for is worked out."""

    size: int  # of its body
    of_tenant: asyncio.Semaphore  # among the requests of its tenant
    turn: asyncio.Semaphore  # among the tenants

    async def do(self, work: Callable[[], T]) -> T:
        """What the work returns or raises."""
        if self.size <= LIGHT:
            return work()
        async with self.of_tenant, self.turn:
            return await to_thread(work)


def _beside(request: Request, tenant: Tenant) -> Beside:
    services = services_of(request)
    of_tenant = services.turns.get(tenant)
    if of_tenant is None:
        of_tenant = services.turns[tenant] = asyncio.Semaphore(1)
    return Beside(request.scope[body.SIZE], of_tenant, services.turn)


Aside = Annotated[Beside, Depends(_beside)]
