"""The action types that this process serves, each with the one object that performs it."""

import inspect
import logging
from collections.abc import Collection, Mapping

from procession.actions.base import Action
from procession.actions.caught import caught
from procession.engine.branches import BRANCHES, CONDITIONAL, REQUEST, BranchError, children_of
from procession.engine.catalogue import ActionType, Catalogue, Repeatable

log = logging.getLogger(__name__)


class Registry:
    """Action types by name."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self._actions = dict(actions)
        self._described = {name: described(one) for name, one in self._actions.items()}
        self._blocking = frozenset(
            name
            for name, one in self._actions.items()
            if not inspect.iscoroutinefunction(one.perform)
        )
        self.types = tuple(sorted(self._actions))

    def get(self, name: str) -> Action | None:
        """The object that performs this type; None when it is not served."""
        return self._actions.get(name)

    def kind(self, name: str) -> ActionType:
        """What is known of a type that is served."""
        return self._described[name]

    def is_blocking(self, name: str) -> bool:
        """Whether it is performed in a thread."""
        return name in self._blocking

    def repeatable(
        self,
        name: str,
        parameters: Mapping[str, str] | None = None,
        requests: Collection[str] = (),
    ) -> bool:
        """Whether doing it twice with one key does no more than doing it once.

        A type that decides by its parameters is not, unless they are given; nor is a stored request
        that is not among those of which it is known.
        """
        action = self._actions.get(name)
        if name == CONDITIONAL and parameters is not None:
            return action is not None and self._are_repeatable(parameters, requests)
        if name == REQUEST and parameters is not None:
            return action is not None and parameters.get(REQUEST, "").strip() in requests
        return action is not None and _promises(name, action, parameters)

    def _are_repeatable(self, parameters: Mapping[str, str], requests: Collection[str]) -> bool:
        """Whether every child in both branches is."""
        try:
            children = [one for name in BRANCHES for one in children_of(parameters.get(name, ""))]
        except BranchError:
            return False
        return all(self.repeatable(one.type, one.parameters, requests) for one in children)

    def catalogue(self) -> Catalogue:
        """What the checks of a save, and a reader, may know of the types."""
        return Catalogue(self._described)


def _promises(name: str, action: Action, parameters: Mapping[str, str] | None) -> bool:
    """What the action says of itself; a promise that cannot be had is none."""
    promise = action.repeatable
    if isinstance(promise, bool):
        return promise
    if parameters is None:
        return False
    said, error = caught(lambda: promise(parameters))
    if error is not None:
        log.warning("%s cannot say whether it is repeatable: %s", name, type(error).__name__)
    return said is True


def described(action: Action) -> ActionType:
    """What an action says of itself."""
    promise = action.repeatable
    if isinstance(promise, bool):
        repeatable = Repeatable.ALWAYS if promise else Repeatable.NEVER
    else:
        repeatable = Repeatable.DEPENDS
    return ActionType(
        inspect.getdoc(type(action)) or "", action.parameters, action.outputs, repeatable
    )
