"""`docs/reference/api.md`, written from the API's description by `make docs`; a test compares.

The page says what a reader looks up: each route with what it takes, needs, answers and refuses, and
the fields of each body. Patterns and bounds of fields stay in `/openapi.json`.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.refusals import ALWAYS, KEYED, WITH_A_BODY
from procession.api.services import Services
from procession.queue.pool import Pool

Json = Mapping[str, Any]

TOP = """\
# Reference: the API

Written by `make docs` from what `/openapi.json` says, which has patterns, bounds and examples
beside it. [api.md](../api.md) shows how it is used.

A refusal is a [Problem](#problem). Any route may answer {always}; one with a body {body}. A POST
takes `Idempotency-Key`, and may answer {keyed}. Other codes stand with their routes.
"""
PAGED = """\
A page has `items`, `page`, `pageSize`, `totalItems`, `totalPages`, `hasNextPage` and
`hasPreviousPage`.
"""
EVERYWHERE = {*ALWAYS, *WITH_A_BODY, *KEYED}
KEYED_BY = "Idempotency-Key"
GOOD = "2"  # the first digit of a status
PAGE_OF = "Page_"  # begins the name of a page's schema, which a further _ ends
KINDS = {"string": "text", "date-time": "time", "object": "object", "boolean": "boolean"}


def page() -> str:
    """The whole page."""
    catalogue = load(built_in(), []).catalogue()
    nothing = cast("Pool", None)  # the description asks no database
    document: Json = create_app(Services(pool=nothing, catalogue=catalogue)).openapi()
    codes = {"always": ALWAYS, "body": WITH_A_BODY, "keyed": KEYED}
    top = TOP.format(**{name: _codes(which) for name, which in codes.items()})
    return "\n".join([top, *_groups(document), *_shapes(document["components"]["schemas"])])


def _groups(document: Json) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"## {tag['name'].capitalize()}\n\n{tag['description']}\n"
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    yield from _route(f"{method.upper()} {path}", operation)


def _route(title: str, operation: Json) -> Iterator[str]:
    yield f"### {title}\n\n{operation['summary']}. {operation['description']}".rstrip() + "\n"
    asked = [_parameter(one) for one in operation.get("parameters", ()) if _says_more(one)]
    if asked:
        yield _table(("parameter", "in", "takes", "what it is"), asked)
    lines: list[str] = []
    if body := operation.get("requestBody"):
        lines.append(f"* Body: {_content(body)}")
    lines += [f"* Answers {line}" for line in _answers(operation["responses"])]
    if codes := _own_codes(operation["responses"]):
        lines.append(f"* Refuses with {_codes(codes)}")
    yield "\n".join(lines) + "\n"


def _says_more(parameter: Json) -> bool:
    """Beyond what stands in the path, or holds for every POST."""
    return "description" in parameter and parameter["name"] != KEYED_BY


def _parameter(one: Json) -> Sequence[str]:
    must = ", required" if one.get("required") and one["in"] != "path" else ""
    default = one["schema"].get("default")
    takes = _kind(one["schema"]).removesuffix(" or null")  # what is left out is null
    takes += f" ({default})" if default is not None else ""
    return (f"`{one['name']}`", f"{one['in']}{must}", takes, one["description"])


def _answers(responses: Json) -> Iterator[str]:
    for status, answer in responses.items():
        if status.startswith(GOOD) or "application/json" in answer.get("content", {}):
            says = answer["description"].removesuffix(".")
            shape = _content(answer)
            yield f"{status}, {says[:1].lower()}{says[1:]}" + (f": {shape}" if shape else "")


def _content(holder: Json) -> str:
    for media, content in holder.get("content", {}).items():
        return _kind(content["schema"]) if media == "application/json" else media
    return ""


def _own_codes(responses: Json) -> Sequence[str]:
    found = (
        code
        for answer in responses.values()
        for content in answer.get("content", {}).values()
        for code in content.get("examples", {})
    )
    return [code for code in found if code not in EVERYWHERE]


def _codes(codes: Sequence[str]) -> str:
    return ", ".join(f"[`{code}`](../errors.md#{code})" for code in codes)


def _shapes(schemas: Json) -> Iterator[str]:
    yield f"## Bodies and answers\n\n{PAGED}"
    for name, schema in sorted(schemas.items()):
        if not name.startswith(PAGE_OF):
            yield f"### {name}\n"
            if says := schema.get("description"):
                yield f"{says}\n"
            yield from _fields(schema)


def _fields(schema: Json) -> Iterator[str]:
    if "enum" in schema:
        yield f"One of {_values(schema['enum'])}.\n"
    if "properties" in schema:
        must = schema.get("required", ())
        rows = [
            (f"`{name}`", _kind(one), "" if name in must else "may be absent")
            for name, one in schema["properties"].items()
        ]
        yield _table(("field", "is", ""), rows)


def _kind(schema: Json) -> str:
    """What a value of this schema is, in a word or two."""
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_kind(one) for one in schema[several])
    if "$ref" in schema:
        return _link(schema["$ref"].rsplit("/", 1)[-1])
    if "const" in schema or "enum" in schema:
        return _values(schema.get("enum") or [schema["const"]])
    return _plain(schema)


def _plain(schema: Json) -> str:
    match schema:
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": "object", "additionalProperties": {} as values} if values:
            return f"object of {_kind(cast('Json', values))}"
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"integer from {least} to {most}"
        case {"type": "integer", "minimum": least}:
            return f"integer from {least}"
        case {"type": kind}:
            name = str(schema.get("format", kind))
            return KINDS.get(name, name)
        case _:
            return "any JSON"


def _link(name: str) -> str:
    if name.startswith(PAGE_OF):
        return f"page of {_link(name.removeprefix(PAGE_OF).removesuffix('_'))}"
    return f"[{name}](#{name.lower()})"


def _values(values: Sequence[object]) -> str:
    return ", ".join(f"`{one}`" for one in values)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = (" | ".join(one.replace("|", "\\|") for one in line) for line in lines)
    return "\n".join(f"| {line} |" for line in cells) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
