"""Whom a request is from, where a trusted proxy says it: an address, or else the proxy's own."""

import os
from ipaddress import ip_address
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

TRUSTED = "FORWARDED_ALLOW_IPS"  # uvicorn's, with uvicorn's default
PEER = "procession.peer"


def forwarded(app: ASGIApp) -> ASGIApp:
    """The application, told of the callers behind the proxies that are trusted."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        client = cast("tuple[str, int] | None", scope.get("client"))
        if client is not None and not _is_address(client[0]):
            scope["client"] = scope[PEER]
        await app(scope, receive, send)

    trusted = os.environ.get(TRUSTED, "127.0.0.1")
    proxied = cast("Any", ProxyHeadersMiddleware(cast("Any", checked), trusted))

    async def received(scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = scope.get("client")
        await proxied(scope, receive, send)

    return received


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text))  # a zone may be any text
    except ValueError:
        return False
