"""What a check finds in a body, and reading it piece by piece without stopping at the first fault.

A reader gives what it can be sure of and notes the rest, so that everything wrong is told at once.
Null is the same as left out.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import cast

from procession.engine.catalogue import Catalogue
from procession.engine.content_type import ContentType
from procession.engine.errors import MOST_FAULTS, Concern, Fault
from procession.engine.names import cut

LONGEST_NAME = 200
LONGEST_PLACE, LONGEST_REASON = 500, 2_000  # as told: both may hold what was sent
MOST_CONCERNS = 50  # that are told of one check; each placeholder may be one for each content type


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a definition is checked against."""

    catalogue: Catalogue
    content_types: Mapping[str, ContentType]
    insecure_signed_urls: bool = False
    requests: frozenset[str] | None = None  # the stored ones; None where nobody has looked
    # what the slowest call of an action may take by its type, and all of an attempt's together
    longest: Mapping[str, float] = field(default_factory=dict[str, float])
    most_seconds: float = inf
    kept: frozenset[str] = frozenset()  # places that hold what is stored: checked when it was sent


def told_faults(faults: Sequence[Fault]) -> list[Fault]:
    """As an answer shows them: no more, and no longer, than somebody reads."""
    return [
        Fault(cut(one.name, LONGEST_PLACE), cut(one.reason, LONGEST_REASON))
        for one in faults[:MOST_FAULTS]
    ]


def told_concerns(concerns: Sequence[Concern]) -> list[Concern]:
    """The same."""
    return [
        Concern(cut(one.field, LONGEST_PLACE), cut(one.message, LONGEST_REASON)) for one in concerns
    ]


@dataclass(slots=True)
class Findings:
    """The faults and concerns of one check, in the order they were met."""

    faults: list[Fault] = field(default_factory=list[Fault])
    concerns: list[Concern] = field(default_factory=list[Concern])
    refused: set[str] = field(default_factory=set[str])  # the names of the faults
    left_out: int = 0  # of the concerns

    def refuse(self, name: str, reason: str) -> None:
        """The first fault of a name is the one that is told, and a hundred are in all."""
        if name not in self.refused and len(self.faults) < MOST_FAULTS:
            self.refused.add(name)
            self.faults.append(Fault(name, reason))

    @property
    def is_full(self) -> bool:
        """Whether what is warned of now is no more than counted."""
        return len(self.concerns) >= MOST_CONCERNS

    def warn(self, name: str, message: str) -> None:
        if self.is_full:
            self.left_out += 1
        else:
            self.concerns.append(Concern(name, message))

    def name(self, value: object) -> str:
        """The name that people read of a thing."""
        if isinstance(value, str) and value.strip() and len(value) <= LONGEST_NAME:
            return value
        rule = f"must be 1 to {LONGEST_NAME} characters, not blank"
        self.refuse("name", "is required" if value is None else rule)
        return ""

    def properties(self, value: object, path: str) -> dict[str, object]:
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
        if value is not None:
            self.refuse(path, "must be an object")
        return {}

    def items(self, value: object, path: str) -> list[object]:
        if isinstance(value, list):
            return cast("list[object]", value)
        if value is not None:
            self.refuse(path, "must be a list")
        return []

    def texts(self, value: object, path: str, *, least: int, most: int) -> dict[str, int]:
        """The texts of a list in their order, each once, with the index it came first at.

        None of a list that is too long: whatever else is wrong with it is not looked for.
        """
        found: dict[str, int] = {}
        items = self.items(value, path)
        for index, one in enumerate(items):
            if isinstance(one, str):
                found.setdefault(one, index)
            else:
                self.refuse(f"{path}[{index}]", "must be text")
        if len(items) < least or len(found) > most:
            rule = f"must have {least} to {most} texts"
            self.refuse(path, "is required" if value is None else rule)
        return found if len(found) <= most else {}

    def warn_of_unknown(self, value: dict[str, object], path: str, known: Collection[str]) -> None:
        """Warn of the properties that mean nothing here."""
        for name in value:
            if name not in known:
                self.warn(f"{path}.{name}" if path else name, "is not known and is ignored")
