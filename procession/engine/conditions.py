"""When a workflow may fire, and which branch a Conditional takes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from procession.engine.entry import Entry
from procession.engine.scope import Names, Unread, read
from procession.engine.values import text_of

STATUS = "Status"  # the lifecycle's, which hides a data field of this name


def first_failing(conditions: Mapping[str, str], entry: Entry | None) -> str | None:
    """The first condition, in the order saved, that the entry does not meet.

    A deleted entry (None) meets none, since nothing is left to compare.
    """
    for key, wanted in conditions.items():
        if entry is None or not _meets(entry, key, wanted):
            return key
    return None


def _meets(entry: Entry, key: str, wanted: str) -> bool:
    if key == STATUS:
        return entry.status == wanted
    value = entry.data.get(key, ...)
    return value is not ... and not isinstance(value, list | dict) and text_of(value) == wanted


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a Conditional compares: `LEFT == RIGHT` or `LEFT != RIGHT`."""

    name: str
    equal: bool
    right: str

    def reads_content(self) -> bool:
        """Whether it needs an entry that still exists."""
        return self.name == "status" or self.name.startswith("data.")

    def is_known(self) -> bool:
        """Whether its name is one that is read: any other is empty text."""
        is_field = self.name.startswith("data.") and self.name.count(".") == 1
        return is_field or self.name in ("status", "contentType")


_OPERATOR = re.compile(r"==|!=")
_LEFT = re.compile(r"\{\{([^{}]{1,256})\}\}")


def parse_comparison(condition: str) -> Comparison | None:
    """The comparison in the text, before any value is read; None when it holds none."""
    operator = _OPERATOR.search(condition)
    if operator is None:
        return None
    left = _LEFT.fullmatch(condition[: operator.start()].strip())
    if left is None:
        return None
    right = condition[operator.end() :].strip()
    if len(right) > 1 and right[0] == right[-1] and right[0] in "\"'":
        right = right[1:-1]
    return Comparison(left[1].strip(), operator[0] == "==", right)


def holds(comparison: Comparison, names: Names) -> bool:
    """Whether it is so for this entry; case does not matter."""
    left = _left(comparison, names)
    return (left.casefold() == comparison.right.casefold()) is comparison.equal


def _left(comparison: Comparison, names: Names) -> str:
    if not comparison.is_known():
        return ""
    try:
        return text_of(read(names, comparison.name))
    except Unread:
        return ""
