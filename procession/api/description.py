"""The description of the API, as /openapi.json gives it.

FastAPI finds paths, parameters and answers in the routes. What it cannot see is added here: bodies,
every refusal of every route, credentials, and what the words mean.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from procession.api import refusals
from procession.api.body import SHAPES
from procession.api.bounds import BOUNDS
from procession.api.examples import EXAMPLES, WORKFLOW_ID
from procession.api.idempotency import OWN_RULE
from procession.api.problems import MEDIA_TYPE, Problem
from procession.api.routes import Need, need_of
from procession.api.words import ABOUT, PARAMETERS, SECURITY, TAGS

Json = dict[str, Any]

CALLERS: list[dict[str, list[str]]] = [{"key": []}, {"control": [], "tenant": []}, {"oidc": []}]
BY_CONTROL = [CALLERS[0], {"control": list[str]()}, CALLERS[2]]  # above the tenants

STOCK = "Successful Response"
KEY_OF_A_REPEAT = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes a repeat safe: the first answer is given again for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}

HEADERS = {
    name: {"description": says, "schema": {"type": "string"}, "example": example}
    for name, example, says in (
        ("ETag", '"3"', "The version, as If-Match takes it."),
        ("Location", f"/api/workflows/{WORKFLOW_ID}", "Where it is to be looked at."),
        ("WWW-Authenticate", "Bearer", "What to send a credential as."),
        ("Retry-After", "5", "How many seconds to wait."),
    )
}
OF_STATUS = {"401": ("WWW-Authenticate",), "429": ("Retry-After",), "503": ("Retry-After",)}
OF_ANSWERS = {
    ("create_workflow", "201"): ("Location", "ETag"),
    ("read_workflow", "200"): ("ETag",),
    ("replace_workflow", "200"): ("ETag",),
    ("save_entry", "200"): ("ETag",),
    ("save_entry", "201"): ("ETag",),
    ("perform_transition", "200"): ("ETag",),
    ("read_entry", "200"): ("ETag",),
    ("bulk_retry", "202"): ("Location",),
    ("bulk_cancel", "202"): ("Location",),
    ("bulk_abandon", "202"): ("Location",),
}


def describe(app: FastAPI, routers: Sequence[APIRouter]) -> Json:
    """The OpenAPI document of the application."""
    document = get_openapi(
        title=app.title, version=app.version, routes=app.routes, description=ABOUT, tags=TAGS
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for stock in ("HTTPValidationError", "ValidationError"):
        schemas.pop(stock, None)
    schemas.update(_bodies())
    for name, properties in BOUNDS.items():
        for one, bounds in properties.items():
            schemas[name]["properties"][one] |= bounds
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    document["components"] |= {"securitySchemes": SECURITY, "examples": _problems()}
    for route in _routes(routers):
        for method in route.methods or ():
            operation = document["paths"][route.path][method.lower()]
            _say(operation, route.description)
            _name_answers(operation["responses"], method)
            if route.path.startswith("/api/"):
                _guard(operation, route, need_of(route))
    return document


def _routes(routers: Sequence[APIRouter]) -> Iterator[APIRoute]:
    for router in routers:
        yield from (
            one for one in router.routes if isinstance(one, APIRoute) and one.include_in_schema
        )


def _bodies() -> Json:
    shapes: list[tuple[type[BaseModel], JsonSchemaMode]]
    shapes = [(one, "validation") for one in (*SHAPES.values(), Problem)]
    _, definitions = models_json_schema(
        shapes, by_alias=True, ref_template="#/components/schemas/{model}"
    )
    return definitions["$defs"]


def _say(operation: Json, docstring: str) -> None:
    """The first sentence says what it does; what follows is for who wants to know more."""
    first, rest = re.split(r"(?<=[.])\s+|\Z", " ".join(docstring.split()), maxsplit=1)
    operation["summary"], operation["description"] = first.removesuffix("."), rest


def _name_answers(answers: Json, method: str) -> None:
    """In the place of what FastAPI calls an answer."""
    for answer in answers.values():
        if answer["description"] == STOCK:
            answer["description"] = "What was asked for" if method == "GET" else "It is done"


def _guard(operation: Json, route: APIRoute, need: Need) -> None:
    """What stands before the route, and all that may be refused."""
    if need.capability:
        needed = f"Needs the capability `{need.capability}`."
        operation["description"] = f"{operation['description']} {needed}".strip()
    operation["security"] = BY_CONTROL if need.above else CALLERS
    for parameter in operation.get("parameters", []):
        _explain(parameter)
    codes = [*_always(need), *refusals.OF.get(route.name, "").split()]
    if "requestBody" in operation:
        codes += refusals.WITH_A_BODY
    methods = route.methods or set[str]()
    if "POST" in methods and route.name not in OWN_RULE:
        codes += refusals.KEYED
        _add(operation, KEY_OF_A_REPEAT)
    answers = operation["responses"]
    answers.pop("422", None)  # FastAPI's own: faults are 400 here
    for status, found in refusals.by_status(codes):
        answers[str(status)] = _refusal(found)
    for status, answer in answers.items():
        names = [*OF_STATUS.get(status, ()), *OF_ANSWERS.get((route.name, status), ())]
        if names:
            answer["headers"] = {name: HEADERS[name] for name in names}


def _always(need: Need) -> list[str]:
    never = {"forbidden"} if need.capability is None and not need.above else set[str]()
    if need.above:
        never.add("tenant-required")
    return [code for code in refusals.ALWAYS if code not in never]


def _add(operation: Json, parameter: Json) -> None:
    named = operation.setdefault("parameters", [])
    if all(one["name"] != parameter["name"] for one in named):
        named.append(parameter)


def _explain(parameter: Json) -> None:
    name = cast("str", parameter["name"])
    if name in PARAMETERS and "description" not in parameter:
        parameter["description"] = PARAMETERS[name]


def _refusal(codes: Sequence[str]) -> Json:
    """An answer with one of these codes."""
    schema = {"$ref": "#/components/schemas/Problem"}
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {
        "description": " or ".join(f"`{code}`" for code in codes),
        "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}},
    }


def _problems() -> Json:
    """An example of each refusal that the routes name."""
    every = (*refusals.ALWAYS, *refusals.WITH_A_BODY, *refusals.KEYED)
    codes = {*every, *(code for line in refusals.OF.values() for code in line.split())}
    return {
        code: {"summary": refusals.status_and_title(code)[1], "value": refusals.example(code)}
        for code in sorted(codes)
    }
