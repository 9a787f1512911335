"""The branches of a Conditional, as the texts that hold them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Never, cast

from procession.engine.workflow import ActionDefinition

MOST_CHILDREN = 20
CONDITIONAL = "Conditional"
REQUEST = "Request"  # an action, and its parameter
BRANCHES = ("ThenActions", "ElseActions")
LETTERED = dict(zip("te", BRANCHES, strict=True))  # as the keys of their children have them
DEEPEST = 5  # of Conditionals within each other, the outermost counted


class BranchError(ValueError):
    """The text is no branch; the message says why."""


def parse_branch(text: str) -> list[dict[str, object]]:
    """The children that a branch lists, unchecked but for being objects."""
    try:
        read: object = json.loads(text, object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, BranchError) else "is not valid JSON"
        raise BranchError(reason) from None
    children = cast("list[object]", read) if isinstance(read, list) else None
    if children is None or not all(isinstance(one, dict) for one in children):
        raise BranchError("must be an array of {type, parameters}")
    if len(children) > MOST_CHILDREN:
        raise BranchError(f"holds more than {MOST_CHILDREN} actions")
    return cast("list[dict[str, object]]", children)


def children_of(text: str) -> tuple[ActionDefinition, ...]:
    """The children that a branch lists, ready to be performed; none of a blank text."""
    return tuple(_child(one) for one in parse_branch(text)) if text.strip() else ()


def _child(value: Mapping[str, object]) -> ActionDefinition:
    type_, parameters = value.get("type"), value.get("parameters")
    given = cast("dict[str, object]", parameters if isinstance(parameters, dict) else {})
    kept = {name: one for name, one in given.items() if isinstance(one, str)}
    absent = sum(one is None for one in given.values())
    if (
        not isinstance(type_, str)
        or not isinstance(parameters, dict | None)
        or len(kept) + absent < len(given)
    ):
        raise BranchError("must be an array of {type, parameters}, all of them text")
    return ActionDefinition(type=type_, parameters=kept)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BranchError("holds an object with a name twice")
    return made


def _constant(name: str) -> Never:
    raise BranchError(f"holds {name}, which is no JSON")


def requests_in(type_: str, parameters: Mapping[str, str]) -> frozenset[str]:
    """The stored requests that an action sends, itself or by its children at any depth."""
    if type_ == REQUEST:
        return frozenset({parameters.get(REQUEST, "").strip()})
    found = frozenset[str]()
    if type_ == CONDITIONAL:
        for name in BRANCHES:
            with suppress(BranchError):  # it may be the other that is picked
                for child in children_of(parameters.get(name, "")):
                    found |= requests_in(child.type, child.parameters)
    return found
