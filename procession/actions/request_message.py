"""What a stored request becomes for one attempt: its holes filled, and fit to be sent."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Never
from urllib.parse import quote

from procession.actions.base import Context
from procession.engine.connector import Connector, has_dots
from procession.engine.holes import HoleError, Place, fill
from procession.engine.request_definition import RequestDefinition
from procession.engine.scope import Names
from procession.engine.templates import TooLongError

LONGEST_PATH = 8_192
# What may stand in a path as it is written. Some take a backslash for a slash.
_SIGNS = "".join(chr(one) for one in range(0x21, 0x7F)).replace("\\", "")
_SENDABLE = re.compile(r"[ -~]*", re.ASCII)


class UnfitError(Exception):
    """It cannot be sent, now or ever; the message says why, and holds nothing of the entry."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent, but for what lets in."""

    path: str
    headers: dict[str, str]
    content: bytes


def message_of(request: RequestDefinition, connector: Connector, context: Context) -> Message:
    """The request as this attempt sends it; raises UnfitError."""
    names = Names(
        entry=context.entry,
        content_type=context.content_type,
        time_zone=context.tenant.time_zone,
        currency=context.tenant.currency,
    )
    headers = {name: _header(name, text, names) for name, text in request.header_templates.items()}
    content = _body(request, names)
    if content:
        headers["Content-Type"] = request.body_content_type
    if header := connector.idempotency_header:
        headers = without(headers, [header]) | {header: context.idempotency_key}
    return Message(_path(request.path_template, names), headers, content)


def without(headers: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The headers but for these, in any case."""
    lowered = {name.lower() for name in names}
    return {name: value for name, value in headers.items() if name.lower() not in lowered}


def _filled(what: str, text: str, names: Names, place: Place) -> str:
    try:
        return fill(text, names, place)
    except HoleError as error:
        reason = f"{what} reads {error.written}, which has no value that may leave."
        raise UnfitError(reason) from None
    except TooLongError:
        raise UnfitError(f"{what} is too long.") from None


def _path(template: str, names: Names) -> str:
    path = quote(_filled("The path", template, names, Place.PATH), safe=_SIGNS)
    if len(path) > LONGEST_PATH:
        raise UnfitError("The path is too long.")
    if has_dots(path):
        raise UnfitError("The path would lead up, out of where it is meant to stay.")
    return path


def _header(name: str, template: str, names: Names) -> str:
    value = _filled(f"The header {name}", template, names, Place.TEXT).strip(" ")
    if not _SENDABLE.fullmatch(value):
        raise UnfitError(f"The header {name} would hold what no header may.")
    return value


def _body(request: RequestDefinition, names: Names) -> bytes:
    if request.body_template is None:
        return b""
    place = Place.JSON if request.is_json else Place.FORM if request.is_form else Place.TEXT
    body = _filled("The body", request.body_template, names, place)
    if request.is_json:
        try:
            json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise UnfitError("The body is no valid JSON.") from None
    return body.encode("utf-8", "replace")


def _no_constant(_: str) -> Never:
    raise ValueError
