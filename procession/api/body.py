"""Bodies, read strictly: nothing that the database would refuse or that reads in two ways.

A route declares `takes(Shape)` and asks for `Document`: the JSON is decoded before the route runs,
and `read(Shape, document)` says what is wrong with it once the thing in the path is found.
"""

import asyncio
import codecs
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError

from procession.api.problems import faults_of
from procession.engine.errors import (
    MOST_FAULTS,
    BodyTooLargeError,
    BodyTooSlowError,
    Fault,
    MalformedJsonError,
    UnsupportedMediaTypeError,
    ValidationFailedError,
)
from procession.engine.findings import LONGEST_PLACE
from procession.engine.names import cut
from procession.engine.values import written_out

SLOWEST = 30  # seconds that a body may take to arrive
DEEPEST = 64  # objects and lists inside one another; far from where the walk or Postgres would end
MARKS = {
    codecs.BOM_UTF8: "UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16, where UTF-8 is wanted",
    codecs.BOM_UTF16_BE: "UTF-16, where UTF-8 is wanted",
}
DIGITS = re.compile("[0-9]{1,18}")
NUL = "holds a NUL, which no text may"
SURROGATE = "holds half of a surrogate pair"

Shape = TypeVar("Shape", bound=BaseModel)
Path = tuple[str | int, ...]


class _Twice(dict[str, object]):
    """An object in which a name came twice."""

    name: str = ""


# what an item holds others in; asked of each, and a union of types would be made anew each time
CONTAINERS: frozenset[type] = frozenset({dict, list, _Twice})


def decode(raw: bytes, limit: float = math.inf) -> object:
    """The value of a JSON text. Anything doubtful raises, by the path of where it stands.

    It is no larger than the limit when its numbers are written out either, as they are answered.
    """
    for mark, encoding in MARKS.items():
        if raw.startswith(mark):
            raise MalformedJsonError(f"It begins with a byte order mark (BOM) of {encoding}.")
    try:
        value: object = json.loads(raw.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise MalformedJsonError(f"Byte {error.start} is not UTF-8.") from None
    except RecursionError:
        raise MalformedJsonError("It is nested too deep.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise MalformedJsonError(f"{error.msg}, at {place}.") from None
    except ValueError:
        raise MalformedJsonError("A number has too many digits.") from None
    look, root = _Look(limit - len(raw), limit), {"": value}
    look.into((), root)
    if look.faults:
        raise ValidationFailedError(look.faults)
    return root[""]


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    twice, seen = _Twice(made), set[str]()
    for name, _ in pairs:
        if name in seen:
            twice.name = name
        seen.add(name)
    return twice


@dataclass(slots=True)
class _Look:
    """What may not be kept of a document, as much of it as is told."""

    left: float  # of the limit, for digits that were not sent
    limit: float
    faults: list[Fault] = field(default_factory=list[Fault])

    def into(self, path: Path, container: dict[str, object] | list[object], depth: int = 0) -> None:
        """Find it here and below. The usual item costs a comparison of types, an empty one two."""
        if depth > DEEPEST:
            raise MalformedJsonError(f"It is nested deeper than {DEEPEST}.")
        if isinstance(container, dict):
            self._at_names(path, container)
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for part, item in items:
            kind = type(item)
            if kind is str:
                if flaw := _flaw(cast("str", item)):
                    self.faults.append(Fault(place((*path, part)), flaw))
            elif kind is float:
                number = self._number((*path, part), cast("float", item))
                cast("dict[str | int, object]", container)[part] = number
            elif kind in CONTAINERS and (item or depth == DEEPEST):
                inside = cast("dict[str, object] | list[object]", item)
                self.into((*path, part), inside, depth + 1)
            if len(self.faults) >= MOST_FAULTS:
                return

    def _number(self, path: Path, number: float) -> float:
        """As Postgres gives it back."""
        if not math.isfinite(number):
            self.faults.append(Fault(place(path), "must be a finite number"))
            return number
        stored, longer = written_out(number)
        self.left -= longer
        if longer and self.left < 0:
            detail = f"With its numbers written out, it is larger than {self.limit} bytes."
            raise BodyTooLargeError(detail)
        return stored

    def _at_names(self, path: Path, item: dict[str, object]) -> None:
        if isinstance(item, _Twice):
            name = json.dumps(cut(item.name, LONGEST_PLACE))
            raise MalformedJsonError(f"The name {name} comes twice in {place(path)}.")
        flaws = [flaw for name in item if (flaw := _flaw(name))][:MOST_FAULTS]
        self.faults.extend(Fault(place(path), f"has a name that {flaw}") for flaw in flaws)


def _flaw(text: str) -> str | None:
    if "\0" in text:
        return NUL
    if not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
        return SURROGATE
    return None


def place(path: Path) -> str:
    """A path as answers write it: `actions[0].parameters.Url`. A name may be as long as a body."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{cut(part, LONGEST_PLACE)}" for part in path
    )
    return "".join(parts).lstrip(".") or "body"  # the body itself is the nameless part


def read(shape: type[Shape], document: object) -> Shape:
    """The document as this shape, or all its faults at once."""
    try:
        return shape.model_validate(document)
    except ValidationError as error:
        raise ValidationFailedError(faults_of(error.errors(include_url=False))) from None


def check(request: Request, limit: int) -> None:
    """Refuse a body by what the headers say of it, before a byte of it is read."""
    announced = request.headers.get("content-length", "0")
    if not DIGITS.fullmatch(announced) or int(announced) > limit:
        raise BodyTooLargeError(f"At most {limit} bytes are taken.")
    has_body = int(announced) > 0 or "transfer-encoding" in request.headers
    if has_body and not _is_json(request):
        raise UnsupportedMediaTypeError("Send it as application/json.")


async def receive(request: Request, limit: int) -> bytes:
    """The whole body. One that came without being announced is checked like any other."""
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise BodyTooLargeError(f"At most {limit} bytes are taken.")
    except TimeoutError:
        raise BodyTooSlowError(f"All of it was not here within {SLOWEST} s.") from None
    if body and not _is_json(request):
        raise UnsupportedMediaTypeError("Send it as application/json.")
    return bytes(body)


def _is_json(request: Request) -> bool:
    kind, *parameters = request.headers.get("content-type", "").lower().split(";")
    charset = [one.strip() for one in parameters if one.strip().startswith("charset")]
    return kind.strip() == "application/json" and all(
        one.replace(" ", "").replace('"', "") in {"charset=utf-8", "charset=utf8"}
        for one in charset
    )


DOCUMENT = "procession.document"  # of the request's scope: the decoded body
SIZE = "procession.size"  # the same: the bytes that it had
SHAPES: dict[str, type[BaseModel]] = {}  # what routes take, by name, for the description


def takes(shape: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes this body; it is read before the route runs."""
    SHAPES[shape.__name__] = shape
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_TAG = '"[1-9][0-9]{0,8}"'
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The version that the write is meant for, in quotes; * for any.",
    "schema": {
        "type": "string",
        "pattern": rf"^(\*|{_TAG}(, ?{_TAG})*)$",
        "examples": ['"3"', "*"],
    },
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Only if there is none yet.",
    "schema": {"type": "string", "enum": ["*"]},
}
# the `openapi_extra` of a route that heeds a precondition, and of one that may make something new
CONDITIONAL: dict[str, Any] = {"parameters": [_IF_MATCH]}
CONDITIONAL_OR_NEW: dict[str, Any] = {"parameters": [_IF_MATCH, _IF_NONE_MATCH]}


def takes_body(openapi_extra: Mapping[str, Any] | None) -> bool:
    return "requestBody" in (openapi_extra or {})


def _document(request: Request) -> object:
    return request.scope[DOCUMENT]


Document = Annotated[object, Depends(_document)]
