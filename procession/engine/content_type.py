"""The kind of an entry: its fields, who may see them, its statuses and transitions."""

from collections.abc import Mapping
from enum import StrEnum
from typing import cast

import msgspec
from msgspec import Struct

from procession.engine.errors import MOST_FAULTS, Fault, ValidationFailedError
from procession.engine.names import NAME_RULE, is_name, told

PUBLISHED = "Published"  # the status that fires Published and Unpublished, wherever it is declared
STATUSES = ("Draft", PUBLISHED, "Archived")  # of a type that declares none
LONGEST_STATUS = 100
# Every check of an entry or a workflow reads them, and lists of content types show all of them.
MOST_FIELDS, MOST_STATUSES, MOST_TRANSITIONS = 1_000, 200, 1_000


class Kind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    MONEY = "money"
    JSON = "json"
    REFERENCE = "reference"


class Sensitivity(StrEnum):
    """Of an entry or of a field: who may read it."""

    PUBLIC = "Public"
    SENSITIVE = "Sensitive"
    HIDDEN = "Hidden"


class Field(Struct, frozen=True, omit_defaults=True):
    type: Kind = Kind.TEXT
    sensitivity: Sensitivity = Sensitivity.PUBLIC


class Transition(Struct, frozen=True, rename={"from_": "from"}):
    from_: tuple[str, ...]
    to: str


class Lifecycle(Struct, frozen=True):
    """The first status is that of a new entry."""

    statuses: tuple[str, ...] = STATUSES
    transitions: dict[str, Transition] = {}


class ContentType(Struct, frozen=True):
    """As stored and served; its name is its key."""

    fields: dict[str, Field] = {}
    lifecycle: Lifecycle = Lifecycle()

    def sensitivity_of(self, field: str) -> Sensitivity:
        """A field that is not declared counts as Hidden."""
        declared = self.fields.get(field)
        return declared.sensitivity if declared else Sensitivity.HIDDEN

    def transition(self, name: str) -> tuple[str, Transition] | None:
        """The transition of this name in any case, with its name as declared."""
        for declared, transition in self.lifecycle.transitions.items():
            if declared.lower() == name.lower():
                return declared, transition
        return None


def parse_content_type(body: object) -> ContentType:
    """What the body declares; raises ValidationFailedError with every fault of it."""
    faults: list[Fault] = []
    root = _object(body, "body", faults)
    fields = {
        name: _field(name, value, faults)
        for name, value in _few(root.get("fields"), "fields", MOST_FIELDS, faults).items()
        if len(faults) < MOST_FAULTS
    }
    lifecycle = _lifecycle(_object(root.get("lifecycle"), "lifecycle", faults), faults)
    if faults:
        raise ValidationFailedError(faults)
    return ContentType(fields, lifecycle)


def _field(name: str, value: object, faults: list[Fault]) -> Field:
    path = f"fields.{name}"
    if not is_name(name):
        faults.append(Fault(path, NAME_RULE))
    field = _object(value, path, faults)
    kind = field.get("type", Kind.TEXT)
    if kind not in tuple(Kind):
        faults.append(Fault(f"{path}.type", f"must be one of {', '.join(Kind)}"))
    sensitivity = field.get("sensitivity", Sensitivity.PUBLIC)
    if sensitivity not in tuple(Sensitivity):
        faults.append(Fault(f"{path}.sensitivity", f"must be one of {', '.join(Sensitivity)}"))
    return Field() if faults else msgspec.convert(field, Field)


def _lifecycle(lifecycle: Mapping[str, object], faults: list[Fault]) -> Lifecycle:
    statuses = STATUSES
    if lifecycle.get("statuses") is not None:
        statuses = _statuses(lifecycle["statuses"], "lifecycle.statuses", faults)
    known = _Known(frozenset(statuses), f"must be one of the statuses {told(statuses)}")
    declared: dict[str, str] = {}
    transitions: dict[str, Transition] = {}
    path = "lifecycle.transitions"
    given = _few(lifecycle.get("transitions"), path, MOST_TRANSITIONS, faults)
    for name, value in given.items():
        if len(faults) >= MOST_FAULTS:
            break
        if not is_name(name):
            faults.append(Fault(f"{path}.{name}", NAME_RULE))
        elif (first := declared.setdefault(name.lower(), name)) != name:
            faults.append(Fault(f"{path}.{name}", f"differs from {first} in case only"))
        transitions[name] = _transition(f"{path}.{name}", value, known, faults)
    return Lifecycle(statuses, transitions)


def _statuses(value: object, path: str, faults: list[Fault]) -> tuple[str, ...]:
    statuses = _texts(value, path, faults)
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        if not status.strip() or len(status) > LONGEST_STATUS:
            reason = f"must be 1 to {LONGEST_STATUS} characters, not blank"
            faults.append(Fault(f"{path}[{index}]", reason))
        elif status in seen:
            faults.append(Fault(f"{path}[{index}]", "is there twice"))
        seen.add(status)
    return statuses


class _Known(Struct, frozen=True):
    """The statuses that transitions may name, and what is said of any other."""

    statuses: frozenset[str]
    rule: str


def _transition(path: str, value: object, known: _Known, faults: list[Fault]) -> Transition:
    transition = _object(value, path, faults)
    sources = _texts(transition.get("from"), f"{path}.from", faults)
    target = transition.get("to")
    faults.extend(
        Fault(f"{path}.from[{index}]", known.rule)
        for index, status in enumerate(sources)
        if status not in known.statuses
    )
    if not isinstance(target, str) or target not in known.statuses:
        faults.append(Fault(f"{path}.to", known.rule))
        target = ""
    return Transition(tuple(dict.fromkeys(sources)), target)


def _few(value: object, path: str, most: int, faults: list[Fault]) -> Mapping[str, object]:
    """The properties; none when there are so many that they are not looked at."""
    given = _object(value, path, faults)
    if len(given) <= most:
        return given
    faults.append(Fault(path, f"must have at most {most:,} names"))
    return {}


def _object(value: object, path: str, faults: list[Fault]) -> Mapping[str, object]:
    """The properties; none for null, which is the same as left out."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    if value is not None or path == "body":
        faults.append(Fault(path, "must be an object"))
    return {}


def _texts(value: object, path: str, faults: list[Fault]) -> tuple[str, ...]:
    """A list of at least one text, and of no more than there may be statuses."""
    if not isinstance(value, list) or not value:
        faults.append(Fault(path, "must be a list of at least one text"))
        return ()
    texts = cast("list[object]", value)
    if len(texts) > MOST_STATUSES:
        faults.append(Fault(path, f"must have at most {MOST_STATUSES} texts"))
        return ()
    wrong = [index for index, one in enumerate(texts) if not isinstance(one, str)]
    faults.extend(Fault(f"{path}[{index}]", "must be text") for index in wrong)
    return () if wrong else tuple(cast("list[str]", texts))
