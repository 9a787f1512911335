"""What a save makes of credentials: kept where they were, sent again where they would move.

What is left out is kept where the action is the one that it was stored for, and must be sent again
where it is not: a stored credential never goes to a new place unseen. A branch of a Conditional
that differs from what was told of it counts as it was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from procession.engine.branches import BranchError, parse_branch
from procession.engine.catalogue import Catalogue
from procession.engine.credentials import (
    Shown,
    Stored,
    as_object,
    declared,
    is_branch,
    is_credential,
    mapped_parameters,
    shown,
    text_of,
)
from procession.engine.errors import Fault
from procession.engine.workflow import ActionDefinition, Definition

SEND_AGAIN = "is a credential that must be sent again, or blank to clear it"
OF_ANSWERS = frozenset({"credentialsSet", "unreadableBranches"})  # read of a child, and not stored


@dataclass(frozen=True, slots=True)
class Carried:
    """A body with the credentials that it is to be saved with."""

    body: object
    faults: tuple[Fault, ...] = ()  # credentials to send again
    dropped: tuple[str, ...] = ()  # stored ones whose place is gone
    kept: frozenset[str] = frozenset()  # the places of what is stored as it was


def carry(body: object, stored: Definition | None, catalogue: Catalogue) -> Carried:
    """The body to check and save: credentials trimmed, blank ones gone, kept ones put back.

    Nothing is stored when it is the first save. What is wrong with the shape of the body is left
    for its own check to find.
    """
    root = as_object(body)
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
    return Carried(
        {**root, "actions": made},
        tuple(carrier.faults),
        tuple(carrier.dropped),
        frozenset(carrier.kept_places),
    )


@dataclass(slots=True)
class _Carrier:
    """One walk over the actions of a body."""

    catalogue: Catalogue
    first: bool
    faults: list[Fault] = field(default_factory=list[Fault])
    dropped: list[str] = field(default_factory=list[str])
    kept_places: set[str] = field(default_factory=set[str])

    def action(self, path: str, sent: object, stored: ActionDefinition | None) -> object:
        """An action, with its compensation."""
        made = self.step(path, sent, stored)
        before = stored.compensate if stored else None
        path = f"{path}.compensate"
        undo = as_object(made).get("compensate")
        if undo is None:
            self.drop(path, before)
            return made
        return {**as_object(made), "compensate": self.step(path, undo, before)}

    def step(self, path: str, sent: object, stored: Stored | None) -> object:
        """An action, a compensation or a child by itself."""
        action = as_object(sent)
        if not action or not isinstance(action.get("parameters"), dict | None):
            return sent
        type_ = action.get("type")
        given = {
            name: value
            for name, value in as_object(action.get("parameters")).items()
            if value is not None
        }
        known = shown(stored, self.catalogue) if stored else Shown({}, ())
        same = self.is_unchanged(type_, given, known, stored)
        kept = self.kept(path, action, given, known, stored if same else None)
        tidy = dict[str, object]()
        for name, value in given.items():
            place = f"{path}.parameters.{name}"
            if is_branch(type_, name) and isinstance(value, str):
                tidy[name] = self.branch(
                    place, value, stored.parameters[name] if same and stored else None
                )
                continue
            secret = name in known.credentials or is_credential(self.catalogue, type_, name)
            text = value.strip() if secret and isinstance(value, str) else value
            if not (secret and text == ""):
                tidy[name] = text
        if stored and not same:
            self.drop_children(path, stored, type_, tidy)
        return {**action, "parameters": {**tidy, **kept}}

    def is_unchanged(
        self, type_: object, given: Mapping[str, object], known: Shown, stored: Stored | None
    ) -> bool:
        """Whether all but its credentials is as it was told."""
        if stored is None or type_ != stored.type or known.unreadable:
            return False
        plain = {
            name: value
            for name, value in given.items()
            if not is_credential(self.catalogue, type_, name)
        }
        return plain == known.parameters

    def kept(
        self,
        path: str,
        action: Mapping[str, object],
        given: Mapping[str, object],
        known: Shown,
        same: Stored | None,
    ) -> dict[str, str]:
        """The stored credentials that the action may keep; a fault for each that it may not."""
        claimed = [] if self.first else _claimed(action)
        names: list[str] = [*dict.fromkeys([*known.credentials, *claimed])]
        left_out = [name for name in names if name not in given]
        kept = {
            name: same.parameters[name]
            for name in left_out
            if same is not None and name in known.credentials
        }
        self.kept_places.update(f"{path}.parameters.{name}" for name in kept)
        self.faults += [
            Fault(f"{path}.parameters.{name}", SEND_AGAIN) for name in left_out if name not in kept
        ]
        return kept

    def branch(self, path: str, sent: str, stored: str | None) -> str:
        """A branch as it is stored, where its Conditional is unchanged, or else as it was sent."""
        if stored is not None:
            self.kept_places |= {path, *self.children_places(path, stored)}
            return stored
        try:
            children = parse_branch(sent)
        except BranchError:
            return sent
        made = [self.child(f"{path}[{index}]", one) for index, one in enumerate(children)]
        return sent if made == children else text_of(made)

    def child(self, path: str, sent: dict[str, object]) -> dict[str, object]:
        made = dict(as_object(self.step(path, sent, None)))
        if "parameters" not in sent:
            made.pop("parameters", None)
        return {name: value for name, value in made.items() if name not in OF_ANSWERS}

    def children_places(self, path: str, branch: str) -> set[str]:
        """Where the credentials of a stored branch are."""
        owner, _, name = path.rpartition(".")
        found: set[str] = set()

        def note(place: str, value: str) -> str:
            found.add(place)
            return value

        pick = declared(self.catalogue)
        mapped_parameters(owner, "Conditional", {name: branch}, pick, note)
        return found

    def drop_children(
        self, path: str, stored: Stored, type_: object, sent: Mapping[str, object]
    ) -> None:
        """Note what was stored in the branches of a Conditional that is another one now."""
        faulty = {one.name for one in self.faults}
        for name, branch in stored.parameters.items():
            if is_branch(stored.type, name):
                place, now = f"{path}.parameters.{name}", sent.get(name)
                same_place = is_branch(type_, name) and isinstance(now, str)
                after = (
                    self.children_places(place, now)
                    if same_place and isinstance(now, str)
                    else set[str]()
                )
                before = self.children_places(place, branch)
                self.dropped += sorted(before - after - faulty)

    def drop(self, path: str, stored: Stored | None) -> None:
        if stored is not None:
            names = shown(stored, self.catalogue).credentials
            self.dropped += [f"{path}.parameters.{name}" for name in names]
            self.drop_children(path, stored, None, {})


def _claimed(action: Mapping[str, object]) -> list[str]:
    """What the sender believes to be stored."""
    names = action.get("credentialsSet")
    if not isinstance(names, list):
        return []
    return [one for one in cast("list[object]", names) if isinstance(one, str)]
