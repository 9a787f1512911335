"""What a call says: its headers and its bytes, and what a trace may know of it."""

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import TypedDict

import httpcore2 as httpcore
import msgspec

from procession.outbound.capture import Capture
from procession.outbound.guard import Target
from procession.outbound.headers import encoded, with_ours
from procession.outbound.spans import Attributes, Span, SpanKind, span

Headers = Mapping[str, str]

BODIED = frozenset({"POST", "PUT", "PATCH"})  # whose body means something to every server


class Options(TypedDict, total=False):
    """What a call may say beside its method and address."""

    headers: Headers
    each_try: Callable[[], Headers]  # headers that are made anew for every try
    content: bytes
    json: object
    capture: Capture
    resend: bool  # whether a request that may have arrived may be sent once more
    owner: Hashable  # of the tenant's connections it has those that this one opened


def spanned(method: str, aim: Target) -> AbstractContextManager[Span]:
    """The call as traces have it: to whom, and no more of the address."""
    about: Attributes = {
        "http.request.method": method,
        "url.scheme": aim.scheme.decode(),
        "server.address": aim.host,
        "server.port": aim.port,
    }
    return span(method, SpanKind.CLIENT, attributes=about)


def message(method: str, options: Options) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The headers and bytes that are the same for every try."""
    given = dict(options.get("headers", {}))
    body = options.get("content", b"")
    if "json" in options:
        body = msgspec.json.encode(options["json"])
        given.setdefault("Content-Type", "application/json")
    headers = encoded(with_ours(given))
    if body or method in BODIED:
        headers.append((b"Content-Length", str(len(body)).encode()))
    if body and method not in BODIED:
        headers.append((b"Connection", b"close"))  # who skips it would read it as the next request
    return headers, body


def request(
    method: str, aim: Target, headers: list[tuple[bytes, bytes]], body: bytes
) -> httpcore.Request:
    return httpcore.Request(
        method,
        httpcore.URL(scheme=aim.scheme, host=aim.host, port=aim.port, target=aim.path),
        headers=[(b"Host", aim.authority), *headers],
        content=body,
    )
