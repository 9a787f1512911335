"""Refusals on the wire: problem+json for whatever goes wrong, the router's own answers included.

No value that was sent is repeated: a reason comes from the kind of the fault. Names may be,
of fields and of things.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Scope

from procession.api.paths import A_UUID
from procession.engine.errors import (
    MOST_FAULTS,
    DatabaseUnavailableError,
    Fault,
    MalformedJsonError,
    MethodNotAllowedError,
    NotFoundError,
    ProcessionError,
    ValidationFailedError,
)
from procession.engine.findings import LONGEST_PLACE, told_faults
from procession.engine.names import cut
from procession.queue.outage import OUTAGES

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TRACE_ID = "procession.trace-id"  # of the request's scope: what ties its answer to the logs

OUTSIDE = "The API is under /api, and /openapi.json describes it."

REASONS = {
    "missing": "is required",
    "extra_forbidden": "is not known here",
    "string_type": "must be text",
    "string_pattern_mismatch": "has characters, or a length, that are not allowed here",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing_size": "is far too large",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "uuid_parsing": A_UUID,
    "uuid_type": A_UUID,
    "datetime_type": "must be a time as in RFC 3339, with its zone",
    "datetime_parsing": "must be a time as in RFC 3339, with its zone",
    "datetime_from_date_parsing": "must be a time as in RFC 3339, with its zone",
    "timezone_aware": "must be a time as in RFC 3339, with its zone",
}
BOUNDS = {
    "string_too_short": ("min_length", "must have at least {} characters"),
    "string_too_long": ("max_length", "must have at most {} characters"),
    "too_short": ("min_length", "must have at least {} items"),
    "too_long": ("max_length", "must have at most {} items"),
    "greater_than_equal": ("ge", "must be at least {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "literal_error": ("expected", "must be {}"),
    "enum": ("expected", "must be {}"),
}


class FaultShape(BaseModel):
    """One thing wrong with what was sent."""

    name: str
    reason: str


class Problem(BaseModel):
    """What went wrong. Some codes add a field that says more."""

    model_config = ConfigDict(extra="allow", title="Problem")

    type: str = Field(examples=["urn:procession:problem:entry-not-found"])
    title: str
    status: int
    detail: str | None = None
    instance: str
    code: str
    trace_id: str = Field(alias="traceId", examples=["4bf92f3577b34da6a3ce929d0e0e4736"])
    errors: list[FaultShape] | None = None


def answer_to(error: ProcessionError, scope: Scope) -> Response:
    """The problem as an answer to the request of this scope."""
    content: dict[str, object] = {
        "type": f"urn:procession:problem:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": scope["path"],
        "code": error.code,
        "traceId": scope[TRACE_ID],
        **error.extras,
    }
    if isinstance(error, ValidationFailedError):
        content["detail"] = "What was sent has faults."
        content["errors"] = [
            {"name": one.name, "reason": one.reason} for one in told_faults(error.faults)
        ]
    return Response(
        json.dumps(content),  # ASCII, so nothing in a path or a name can spoil the answer
        error.status,
        headers={"Cache-Control": "no-store", **error.headers},
        media_type=MEDIA_TYPE,
    )


def faults_of(errors: Sequence[ErrorDetails], *, skip: int = 0) -> list[Fault]:
    """Pydantic's findings as ours: the place, without its first `skip` parts, and the reason."""
    return [Fault(_place(one["loc"][skip:]), _reason(one)) for one in errors[:MOST_FAULTS]]


def _place(location: Sequence[int | str]) -> str:
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part != "[key]":
            name = cut(part, LONGEST_PLACE)
            place += f".{name}" if place else name
    return place or "body"


def _reason(error: ErrorDetails) -> str:
    kind = error["type"]
    context = cast("Mapping[str, object]", error.get("ctx", {}))
    if kind in BOUNDS:
        key, text = BOUNDS[kind]
        return text.format(context[key])
    if kind == "value_error":  # one of our own validators; its text repeats nothing
        return str(context["error"])
    return REASONS.get(kind, "is not valid")


def add_handlers(app: FastAPI) -> None:
    """Make every refusal of this application a problem."""
    app.add_exception_handler(ProcessionError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _broken)
    for outage in OUTAGES:
        app.add_exception_handler(outage, _away)


def _refused(request: Request, exc: Exception) -> Response:
    return answer_to(cast("ProcessionError", exc), request.scope)


def _invalid(request: Request, exc: Exception) -> Response:
    errors = cast("Sequence[ErrorDetails]", cast("RequestValidationError", exc).errors())
    return answer_to(ValidationFailedError(faults_of(errors, skip=1)), request.scope)


def _unrouted(request: Request, exc: Exception) -> Response:
    error = cast("HTTPException", exc)
    if error.status_code != MethodNotAllowedError.status:
        where = None if f"{request.scope['path']}/".startswith("/api/") else OUTSIDE
        return answer_to(NotFoundError("route", where), request.scope)
    answer = answer_to(MethodNotAllowedError(), request.scope)
    first = (error.headers or {}).get("Allow", "").split(", ")
    answer.headers["Allow"] = ", ".join(sorted(_methods(request).union(first)))
    return answer


def _methods(request: Request) -> set[str]:
    """What the path takes. The router knows of one route at a time, and a path may have several."""
    routers = cast("Sequence[APIRouter]", request.app.state.routers)
    routes = [one for router in routers for one in router.routes if isinstance(one, APIRoute)]
    path = cast("str", request.scope["path"])
    here = [one.methods or set() for one in routes if one.path_regex.match(path)]
    return set[str]().union(*here)


def _left(request: Request, _: Exception) -> Response:
    return answer_to(MalformedJsonError("The body ended early."), request.scope)


def _away(request: Request, _: Exception) -> Response:
    return answer_to(DatabaseUnavailableError(), request.scope)


def _broken(request: Request, exc: Exception) -> Response:
    """A defect. Starlette raises it again once this was sent, and the server logs its places."""
    log.error("Answered 500 (%s), trace %s", type(exc).__name__, request.scope[TRACE_ID])
    return answer_to(ProcessionError(), request.scope)
