"""A place in a JSON value: `$.a.b[0]`, names and indexes only."""

import re
from typing import cast

LONGEST = 500
_PATH = re.compile(r"\$(?:\.[^.\[\]\s]{1,100}|\[\d{1,6}\]){1,20}", re.ASCII)
_PART = re.compile(r"\.([^.\[\]\s]+)|\[(\d+)\]", re.ASCII)


def is_json_path(text: str) -> bool:
    return len(text) <= LONGEST and _PATH.fullmatch(text) is not None


def holds(value: object, path: str) -> bool:
    """Whether there is something at this place, null included."""
    for name, index in _PART.findall(path):
        if name and isinstance(value, dict) and name in value:
            value = cast("dict[str, object]", value)[name]
        elif index and isinstance(value, list) and int(index) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(index)]
        else:
            return False
    return True
