"""The shapes of the names that callers choose."""

import re
from collections.abc import Collection
from itertools import islice

MOST_TOLD = 20  # names in one sentence

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_ENTRY_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")

NAME_RULE = "must be a letter, then up to 63 letters, digits or underscores"
ENTRY_ID_RULE = "must be 1 to 200 letters, digits, dots, underscores, colons or dashes"
SLUG_RULE = "must be 1 to 40 small letters, digits or dashes, not beginning with a dash"


def is_name(text: str) -> bool:
    """Of a content type, a field, a transition or a role."""
    return _NAME.fullmatch(text) is not None


def is_entry_id(text: str) -> bool:
    return _ENTRY_ID.fullmatch(text) is not None


def is_slug(text: str) -> bool:
    """Of a tenant, a connector or a request."""
    return _SLUG.fullmatch(text) is not None


def told(names: Collection[str]) -> str:
    """The first of the names as a sentence lists them, and how many more there are."""
    first = ", ".join(islice(names, MOST_TOLD))
    left = len(names) - MOST_TOLD
    return f"{first} and {left} more" if left > 0 else first


def cut(text: str, most: int) -> str:
    """The text, or its beginning where it is longer than that."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
