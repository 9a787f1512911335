"""The other end of the sample's webhook: takes a message, checks its signature, and says so.

What it does with a message is what every receiver should do: docs/webhooks.md.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from procession.outbound.signing import keys_of, signature

TOLERANCE = 300  # seconds that a timestamp may be off


@dataclass(frozen=True, slots=True)
class Message:
    """What came, and whether it was signed by whom it should be."""

    id: str
    body: str
    is_good: bool

    def __str__(self) -> str:
        signed = "signature good" if self.is_good else "SIGNATURE WRONG, refused"
        return f"{self.body}\n    webhook-id {self.id}, {signed}"


def receiver(secret: str, tell: Callable[[Message], None]) -> ASGIApp:
    """An application that takes messages signed with this secret on every path."""

    async def take(request: Request) -> Response:
        body = await request.body()
        message = Message(
            id=request.headers.get("webhook-id", ""),
            body=body.decode("utf-8", "replace"),
            is_good=is_good(secret, request, body),
        )
        tell(message)
        return Response(status_code=204 if message.is_good else 401)

    return Starlette(routes=[Route("/{path:path}", take, methods=["POST"])])


def is_good(secret: str, request: Request, body: bytes) -> bool:
    """Whether one of its signatures is ours for these bytes, at about this time."""
    try:
        at = int(request.headers["webhook-timestamp"])
        expected = signature(keys_of(secret), request.headers["webhook-id"], at, body)
        given = request.headers["webhook-signature"].split(" ")
    except (KeyError, ValueError):
        return False
    signed = [hmac.compare_digest(expected, one) for one in given]
    return any(signed) and abs(time.time() - at) < TOLERANCE
