"""A stored request: what is sent through a connector, with holes that each attempt fills."""

import re
from enum import StrEnum
from typing import TypeVar, cast

from msgspec import Struct

from procession.engine.connector import has_dots, is_header_name
from procession.engine.errors import Fault, ValidationFailedError
from procession.engine.findings import Findings
from procession.engine.json_path import is_json_path
from procession.engine.names import SLUG_RULE, is_slug

LONGEST_PATH, LONGEST_HEADER, LONGEST_BODY = 8_192, 8_192, 262_144
MOST_HEADERS = 50
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})  # to send again
JSON = "application/json"
_TYPE = r"[A-Za-z0-9!#$&^_.+-]{1,100}"
_MEDIA_TYPE = re.compile(rf"{_TYPE}/{_TYPE}(?:\s*;\s*[ -~]{{1,200}})?", re.ASCII)


class Method(StrEnum):
    POST = "POST"
    GET = "GET"
    HEAD = "HEAD"
    OPTIONS = "OPTIONS"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class Success(StrEnum):
    """When an answer is a good one."""

    TWO_HUNDRED = "TwoHundredRange"
    PATH_ABSENT = "TwoHundredAndJsonPathAbsent"
    ANY = "AnyResponse"


class RequestDefinition(Struct, frozen=True, kw_only=True):
    """As stored and served; its slug is its key."""

    name: str
    connector_slug: str
    method: Method = Method.POST
    path_template: str = "/"
    header_templates: dict[str, str] = {}
    body_template: str | None = None
    body_content_type: str = JSON
    success: Success = Success.TWO_HUNDRED
    success_json_path: str | None = None

    @property
    def written(self) -> int:
        """How many characters there are to fill in."""
        texts = (self.path_template, *self.header_templates.values(), self.body_template or "")
        return sum(len(one) for one in texts if "{{" in one)

    @property
    def is_json(self) -> bool:
        """Whether its body says that it is JSON."""
        kind = self.body_content_type.partition(";")[0].strip().lower()
        return kind == JSON or kind.endswith("+json")

    @property
    def is_form(self) -> bool:
        kind = self.body_content_type.partition(";")[0].strip().lower()
        return kind == "application/x-www-form-urlencoded"


def parse_request(body: object) -> RequestDefinition:
    """What the body says; raises ValidationFailedError with every fault of it."""
    if not isinstance(body, dict):
        raise ValidationFailedError([Fault("body", "must be an object")])
    reader, root = _Reader(), cast("dict[str, object]", body)
    success = reader.choice(root.get("success"), "success", Success, Success.TWO_HUNDRED)
    made = RequestDefinition(
        name=reader.found.name(root.get("name")),
        connector_slug=reader.slug(root.get("connectorSlug")),
        method=reader.choice(root.get("method"), "method", Method, Method.POST),
        path_template=reader.path(root.get("pathTemplate")),
        header_templates=reader.headers(root.get("headerTemplates")),
        body_template=reader.body(root.get("bodyTemplate")),
        body_content_type=reader.media_type(root.get("bodyContentType")),
        success=success,
        success_json_path=reader.json_path(root.get("successJsonPath"), success),
    )
    if reader.found.faults:
        raise ValidationFailedError(reader.found.faults)
    return made


C = TypeVar("C", bound=StrEnum)


class _Reader:
    """One walk over a body that notes everything that is wrong with it."""

    def __init__(self) -> None:
        self.found = Findings()

    def slug(self, value: object) -> str:
        if isinstance(value, str) and is_slug(value):
            return value
        self.found.refuse("connectorSlug", SLUG_RULE)
        return ""

    def choice(self, value: object, path: str, kind: type[C], default: C) -> C:
        if value is None:
            return default
        if isinstance(value, str) and value in tuple(kind):
            return kind(value)
        self.found.refuse(path, f"must be one of {', '.join(kind)}")
        return default

    def path(self, value: object) -> str:
        if not isinstance(value, str) or not value.startswith("/") or len(value) > LONGEST_PATH:
            self.found.refuse(
                "pathTemplate", f"must begin with / and have at most {LONGEST_PATH} characters"
            )
            return "/"
        if not value.isprintable() or has_dots(value):
            self.found.refuse("pathTemplate", "must have no control character and lead nowhere up")
        return value

    def headers(self, value: object) -> dict[str, str]:
        kept: dict[str, str] = {}
        given = self.found.properties(value, "headerTemplates")
        if len(given) > MOST_HEADERS:
            self.found.refuse("headerTemplates", f"must be at most {MOST_HEADERS}")
        seen: set[str] = set()
        for name, text in given.items():
            path = f"headerTemplates.{name}"
            if not is_header_name(name) or name.lower() == "authorization":
                self.found.refuse(path, "must be the name of a header that is yours to set")
            elif name.lower() in seen:
                self.found.refuse(path, "is there twice, but for its case")
            elif not isinstance(text, str) or len(text) > LONGEST_HEADER or not text.isprintable():
                rule = (
                    f"must be text of at most {LONGEST_HEADER} characters, none of them a control"
                )
                self.found.refuse(path, rule)
            else:
                kept[name] = text
            seen.add(name.lower())
        return kept

    def body(self, value: object) -> str | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if isinstance(value, str) and len(value) <= LONGEST_BODY:
            return value
        self.found.refuse("bodyTemplate", f"must be text of at most {LONGEST_BODY:,} characters")
        return None

    def media_type(self, value: object) -> str:
        if value is None:
            return JSON
        if isinstance(value, str) and _MEDIA_TYPE.fullmatch(value):
            return value
        self.found.refuse("bodyContentType", "must be a media type, such as application/json")
        return JSON

    def json_path(self, value: object, success: Success) -> str | None:
        if value is None and success is not Success.PATH_ABSENT:
            return None
        if isinstance(value, str) and is_json_path(value):
            return value
        self.found.refuse(
            "successJsonPath", "must be a path of names and indexes, such as $.a.b[0]"
        )
        return None
