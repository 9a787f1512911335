"""One call: sent, and its answer read as what it is to be."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import msgspec
from httpx2 import Client as Http
from httpx2 import HTTPError, InvalidURL, Response

from procession.client.errors import ClientError, RefusedError, UnreachableError
from procession.client.shapes import Problem

Shape = TypeVar("Shape")
Json = Mapping[str, object]

STEPS = ("", ".", "..")  # in a path they lead elsewhere
OURS = "urn:procession:problem:"  # begins the type of every refusal that is Procession's own
SCHEMES = ("http", "https")
NOTHING = 204  # the status of an answer without a body
UNREADABLE = (msgspec.MsgspecError, RecursionError)  # by the second, what is nested without end

_SENDABLE = re.compile(r"[ -~]*")
_HALF = re.compile(r"[\ud800-\udfff]")


class Calls:
    """The connection that every part of the client calls through."""

    def __init__(self, http: Http) -> None:
        self._http = http

    @classmethod
    def to(cls, url: str, key: str, tenant: str | None, timeout: float) -> Self:
        """By a key, or by the control token with the tenant that it is meant for."""
        headers = {"Authorization": f"Bearer {key}"}
        if not key.strip():
            raise ClientError("There is no key: it is empty")
        if not _SENDABLE.fullmatch(key):
            raise ClientError("The key is malformed: it holds more than printable ASCII characters")
        if tenant is not None:
            headers["X-Tenant"] = tenant
            if not _SENDABLE.fullmatch(tenant):
                raise ClientError("The tenant must be of printable ASCII characters")
        try:
            http = Http(base_url=url, headers=headers, timeout=timeout)
        except (InvalidURL, UnicodeEncodeError, ValueError):
            raise ClientError("The address or the key is not one that can be used") from None
        if http.base_url.scheme not in SCHEMES or not http.base_url.host:
            http.close()
            raise ClientError("The address must be one such as https://procession.example.org")
        return cls(http)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, shape: type[Shape], path: str, **query: object) -> Shape:
        """Ask for something."""
        given = {_camel(name): _text(one) for name, one in query.items() if one is not None}
        if place := _unsayable(given):
            raise ClientError(f"{place} holds half of a character")
        return _read(shape, self._sent("GET", path, params=given))

    def send(
        self,
        shape: type[Shape],
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Shape:
        """Have something done. A body is sent where there is one."""
        content = None if body is None else _encoded(body)
        given = {name: one for name, one in (headers or {}).items() if one is not None}
        for name, one in given.items():
            if not _SENDABLE.fullmatch(one):
                raise ClientError(f"{name} must be of printable ASCII characters")
        if content is not None:
            given["Content-Type"] = "application/json"
        return _read(shape, self._sent(method, path, content=content, headers=given))

    def post(
        self,
        shape: type[Shape],
        path: str,
        body: Json | None = None,
        *,
        key: str | None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Shape:
        """Have something done once, however often it is asked for under the same key."""
        return self.send(shape, "POST", path, body, {**(headers or {}), "Idempotency-Key": key})

    def _sent(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        try:
            answer = self._http.request(
                method, path, params=params, content=content, headers=headers
            )
        except (HTTPError, InvalidURL) as error:
            url = self._http.base_url  # which may have a password in it
            where = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
            raise UnreachableError(f"{where} does not answer ({type(error).__name__})") from error
        if not answer.is_success:
            raise _refusal(answer)
        return answer


def path(*parts: str) -> str:
    """The path of a thing, whatever its names are made of."""
    if _unsayable(parts):
        raise ClientError("It is no name: it holds half of a character")
    if step := next((f'"{one}"' for one in parts if one in STEPS), None):
        raise ClientError(f"There is {step}, where a name is wanted")
    return "/api/" + "/".join(quote(one, safe="") for one in parts)


def _encoded(body: Json) -> bytes:
    """The body as JSON; what JSON has no way to say is named, and never sent as something else."""
    try:
        if place := _unsayable(body):
            raise ClientError(f"{place} holds what JSON cannot say")
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ClientError(f"The body cannot be sent: {error}") from None


def _unsayable(value: object, place: str = "") -> str | None:
    """Where there is a number that is none, or half of a character."""
    if isinstance(value, float):
        return None if isfinite(value) else place
    if isinstance(value, str):
        return place if _HALF.search(value) else None
    if isinstance(value, Mapping):
        inside = cast("Mapping[object, object]", value)
        parts = [(one, f"{place}.{name}".lstrip(".")) for name, one in inside.items()]
        parts += [(name, place or "A name") for name in inside]
    elif isinstance(value, list | tuple):
        several = cast("Sequence[object]", value)
        parts = [(one, f"{place}[{index}]") for index, one in enumerate(several)]
    else:
        return None
    return next((found for one, where in parts if (found := _unsayable(one, where))), None)


def _read(shape: type[Shape], answer: Response) -> Shape:
    if shape is type(None) and answer.status_code == NOTHING:
        return shape()
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except UNREADABLE:
        raise UnreachableError(_stranger(answer)) from None


def _refusal(answer: Response) -> ClientError:
    """What was refused. What a proxy says in its own words does not tell whether it was heard."""
    try:
        told = msgspec.json.decode(answer.content, type=Problem)
        problem = msgspec.json.decode(answer.content, type=dict[str, Any])
    except UNREADABLE:
        return UnreachableError(_stranger(answer))
    if not told.type.startswith(OURS):
        return UnreachableError(_stranger(answer))
    return RefusedError(answer.status_code, problem)


def _stranger(answer: Response) -> str:
    return f"{answer.url.host} answers {answer.status_code}, not as Procession does"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(one.title() for one in others)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def wire(**values: object) -> dict[str, object]:
    """The values that are given, by the names they are sent under."""
    return {_camel(name): one for name, one in values.items() if one is not None}
