"""Checks of a long body, which take so long that they would hold up everybody else's requests.

They have a thread, and take turns: many of them at once would leave the loop too little of the
interpreter. No connection is held meanwhile, or a few such bodies would hold all there are.
"""

import asyncio
from asyncio import to_thread
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from procession.api import body
from procession.api.services import services_of

T = TypeVar("T")

LIGHT = 4_096  # bytes of a body that nobody notices


@dataclass(frozen=True, slots=True)
class Beside:
    """Where what this request asks for is worked out."""

    size: int  # of its body
    turn: asyncio.Semaphore

    async def do(self, work: Callable[[], T]) -> T:
        """What the work returns or raises."""
        if self.size <= LIGHT:
            return work()
        async with self.turn:
            return await to_thread(work)


def _beside(request: Request) -> Beside:
    return Beside(request.scope[body.SIZE], services_of(request).turn)


Aside = Annotated[Beside, Depends(_beside)]
