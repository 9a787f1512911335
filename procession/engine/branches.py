"""The branches of a Conditional, as the texts that hold them."""

import json
from typing import Never, cast

MOST_CHILDREN = 20
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


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise BranchError("holds an object with a name twice")
    return made


def _constant(name: str) -> Never:
    raise BranchError(f"holds {name}, which is no JSON")
