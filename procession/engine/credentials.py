"""Credentials among the parameters: which ones they are, and what a save makes of them.

They go in and never come out, so a definition comes back without them. What is left out is kept
where the action is the one that it was stored for, and must be sent again where it is not: a stored
credential never goes to a new place unseen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from procession.engine.catalogue import Catalogue, is_telling
from procession.engine.errors import Fault
from procession.engine.workflow import ActionDefinition, Compensate, Definition

SEND_AGAIN = "is a credential that must be sent again, or blank to clear it"

Stored = ActionDefinition | Compensate


def is_credential(catalogue: Catalogue, type_: object, name: str) -> bool:
    known = catalogue.types.get(type_) if isinstance(type_, str) else None
    return is_telling(name) if known is None else known.is_credential(name)


@dataclass(frozen=True, slots=True)
class Shown:
    """What may be told of an action's parameters."""

    parameters: dict[str, str]
    credentials: tuple[str, ...]


def shown(stored: Stored, catalogue: Catalogue) -> Shown:
    """The parameters that are no credentials, and the names of those that are."""
    secret = [name for name in stored.parameters if is_credential(catalogue, stored.type, name)]
    plain = {name: value for name, value in stored.parameters.items() if name not in secret}
    return Shown(plain, tuple(secret))


@dataclass(frozen=True, slots=True)
class Carried:
    """A body with the credentials that it is to be saved with."""

    body: object
    faults: tuple[Fault, ...] = ()  # credentials to send again
    dropped: tuple[str, ...] = ()  # stored ones whose place is gone


def carry(body: object, stored: Definition | None, catalogue: Catalogue) -> Carried:
    """The body to check and save: credentials trimmed, blank ones gone, kept ones put back.

    Nothing is stored when it is the first save. What is wrong with the shape of the body is left
    for its own check to find.
    """
    root = _object(body)
    actions = root.get("actions")
    if not isinstance(actions, list):
        return Carried(body)
    sent = cast("list[object]", actions)
    before = stored.actions if stored else ()
    carrier = _Carrier(catalogue, first=stored is None)
    made = [
        carrier.action(f"actions[{at}]", one, before[at] if at < len(before) else None)
        for at, one in enumerate(sent)
    ]
    for at in range(len(made), len(before)):
        carrier.drop(f"actions[{at}]", before[at])
        carrier.drop(f"actions[{at}].compensate", before[at].compensate)
    return Carried({**root, "actions": made}, tuple(carrier.faults), tuple(carrier.dropped))


@dataclass(slots=True)
class _Carrier:
    """One walk over the actions of a body."""

    catalogue: Catalogue
    first: bool
    faults: list[Fault] = field(default_factory=list[Fault])
    dropped: list[str] = field(default_factory=list[str])

    def action(self, path: str, sent: object, stored: ActionDefinition | None) -> object:
        """An action, with its compensation."""
        made = self.step(path, sent, stored)
        before = stored.compensate if stored else None
        path = f"{path}.compensate"
        undo = _object(made).get("compensate")
        if undo is None:
            self.drop(path, before)
            return made
        return {**_object(made), "compensate": self.step(path, undo, before)}

    def step(self, path: str, sent: object, stored: Stored | None) -> object:
        """An action or a compensation by itself."""
        action = _object(sent)
        if not action or not isinstance(action.get("parameters"), dict | None):
            return sent
        given = {
            name: value
            for name, value in _object(action.get("parameters")).items()
            if value is not None
        }
        ours = set(shown(stored, self.catalogue).credentials) if stored else set[str]()
        kept = self.kept(path, action, given, stored)
        tidy = dict[str, object]()
        for name, value in given.items():
            secret = name in ours or is_credential(self.catalogue, action.get("type"), name)
            text = value.strip() if secret and isinstance(value, str) else value
            if not (secret and text == ""):
                tidy[name] = text
        return {**action, "parameters": {**tidy, **kept}}

    def kept(
        self,
        path: str,
        action: Mapping[str, object],
        given: Mapping[str, object],
        stored: Stored | None,
    ) -> dict[str, str]:
        """The stored credentials that the action may keep; a fault for each that it may not."""
        known = shown(stored, self.catalogue) if stored else Shown({}, ())
        claimed = [] if self.first else _claimed(action)
        names: list[str] = [*dict.fromkeys([*known.credentials, *claimed])]
        left_out = [name for name in names if name not in given]
        plain = {
            name: value
            for name, value in given.items()
            if not is_credential(self.catalogue, action.get("type"), name)
        }
        unchanged = (
            stored is not None and action.get("type") == stored.type and plain == known.parameters
        )
        kept = {
            name: stored.parameters[name]
            for name in left_out
            if stored is not None and unchanged and name in known.credentials
        }
        self.faults += [
            Fault(f"{path}.parameters.{name}", SEND_AGAIN) for name in left_out if name not in kept
        ]
        return kept

    def drop(self, path: str, stored: Stored | None) -> None:
        if stored is not None:
            names = shown(stored, self.catalogue).credentials
            self.dropped += [f"{path}.parameters.{name}" for name in names]


def _claimed(action: Mapping[str, object]) -> list[str]:
    """What the sender believes to be stored."""
    names = action.get("credentialsSet")
    if not isinstance(names, list):
        return []
    return [one for one in cast("list[object]", names) if isinstance(one, str)]


def _object(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
