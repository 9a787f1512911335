"""Credentials among the parameters: which ones they are, where they stand, and telling of the rest.

They go in and never come out, so a definition comes back without them, at any depth. A place is the
path of a parameter in its definition; what is stored there is bound to it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from procession.engine.action_checks import BRANCHES, CONDITIONAL
from procession.engine.branches import BranchError, parse_branch
from procession.engine.catalogue import Catalogue, is_telling
from procession.engine.workflow import ActionDefinition, Compensate, Definition

Stored = ActionDefinition | Compensate
Pick = Callable[[str, str, str], bool]  # whether the parameter of this type, name and value is one
Change = Callable[[str, str], str]  # what is to stand at this place, where this value stands


# As the queue seals it: the key's id, then a nonce and a tag at least.
SEALED = re.compile(r"v1\.([a-z0-9]{1,16})\.([A-Za-z0-9_-]{38,})")


def is_credential(catalogue: Catalogue, type_: object, name: str) -> bool:
    known = catalogue.types.get(type_) if isinstance(type_, str) else None
    return is_telling(name) if known is None else known.is_credential(name)


def is_branch(type_: object, name: str) -> bool:
    """Whether the parameter holds actions, which have parameters of their own."""
    return type_ == CONDITIONAL and name in BRANCHES


@dataclass(frozen=True, slots=True)
class Shown:
    """What may be told of an action's parameters."""

    parameters: dict[str, str]
    credentials: tuple[str, ...]
    unreadable: tuple[str, ...] = ()  # branches that cannot be parsed, and are not told


def shown(stored: Stored, catalogue: Catalogue) -> Shown:
    """The parameters that are no credentials, and the names of those that are."""
    return _shown(stored.type, stored.parameters, catalogue)


def _shown(type_: object, parameters: Mapping[str, str], catalogue: Catalogue) -> Shown:
    plain: dict[str, str] = {}
    secret: list[str] = []
    unreadable: list[str] = []
    for name, value in parameters.items():
        if is_credential(catalogue, type_, name) or SEALED.fullmatch(value):
            secret.append(name)  # what is sealed is one, though nobody is left who knows the type
        elif not is_branch(type_, name) or not value.strip():
            plain[name] = value
        else:
            try:
                plain[name] = _shown_branch(value, catalogue)
            except BranchError:
                unreadable.append(name)
    return Shown(plain, tuple(secret), tuple(unreadable))


def _shown_branch(text: str, catalogue: Catalogue) -> str:
    """The text as it was sent, unless there are credentials in it."""
    told: list[dict[str, object]] = []
    is_changed = False
    for child in parse_branch(text):
        parameters = parameters_of(child)
        it = _shown(child.get("type"), parameters, catalogue)
        is_changed = is_changed or it.parameters != parameters
        told.append({**child, "parameters": it.parameters, "credentialsSet": list(it.credentials)})
        if it.unreadable:
            told[-1]["unreadableBranches"] = list(it.unreadable)
    return text_of(told) if is_changed else text


def parameters_of(child: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a child; raises BranchError where they are no texts by name."""
    try:
        return msgspec.convert(child.get("parameters") or {}, dict[str, str])
    except msgspec.ValidationError:
        raise BranchError("must be an array of {type, parameters} of text") from None


def text_of(children: Sequence[Mapping[str, object]]) -> str:
    """The children as a branch holds them."""
    return json.dumps(children, ensure_ascii=False, separators=(",", ":"))


def declared(catalogue: Catalogue) -> Pick:
    """Picks what the catalogue, or its name, says to be a credential."""
    return lambda type_, name, _: is_credential(catalogue, type_, name)


def mapped(definition: Definition, pick: Pick, change: Change) -> Definition:
    """The definition with something else in the place of each credential, at any depth."""

    def step(path: str, one: Stored) -> dict[str, str]:
        return mapped_parameters(f"{path}.parameters", one.type, one.parameters, pick, change)

    actions: list[ActionDefinition] = []
    for at, action in enumerate(definition.actions):
        undo = action.compensate
        if undo is not None:
            parameters = step(f"actions[{at}].compensate", undo)
            undo = Compensate(type=undo.type, parameters=parameters)
        parameters = step(f"actions[{at}]", action)
        made = msgspec.structs.replace(action, parameters=parameters, compensate=undo)
        actions.append(made)
    return msgspec.structs.replace(definition, actions=tuple(actions))


def mapped_parameters(
    path: str, type_: object, parameters: Mapping[str, str], pick: Pick, change: Change
) -> dict[str, str]:
    """The same for the parameters at this path."""
    made: dict[str, str] = {}
    for name, value in parameters.items():
        place = f"{path}.{name}"
        if is_branch(type_, name):
            made[name] = _mapped_branch(place, value, pick, change)
        elif isinstance(type_, str) and pick(type_, name, value):
            made[name] = change(place, value)
        else:
            made[name] = value
    return made


def _mapped_branch(path: str, text: str, pick: Pick, change: Change) -> str:
    made: list[dict[str, object]] = []
    try:
        children = parse_branch(text)
        for index, child in enumerate(children):
            place, before = f"{path}[{index}].parameters", parameters_of(child)
            after = mapped_parameters(place, child.get("type"), before, pick, change)
            made.append(child if after == before else {**child, "parameters": after})
    except BranchError:  # nothing of it is used either
        return text
    return text if made == children else text_of(made)


def places(definition: Definition, pick: Pick) -> dict[str, str]:
    """What is stored of each credential, by its place."""
    found: dict[str, str] = {}
    mapped(definition, pick, found.setdefault)
    return found


def as_object(value: object) -> Mapping[str, object]:
    """What was sent as an object; nothing where it is something else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
