"""What is known of the action types without performing any: what they take, give and promise."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

RESERVED = frozenset(  # set by Procession at each attempt, so no definition may
    {"idempotencykey", "runid", "workflowid", "triggerevent", "attempt", "compensationof"}
)
_TELLING = re.compile(
    "secret|password|passwd|pwd|token|apikey|api_key|credential|privatekey|private_key"
    "|accesskey|access_key|authorization|bearer"
)


class Repeatable(StrEnum):
    """Whether doing it twice with one key does no more than doing it once."""

    ALWAYS = "Always"
    NEVER = "Never"
    DEPENDS = "Depends"  # on its parameters


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a definition gives to an action. `Data.*` stands for all that begin so."""

    name: str
    required: bool = False
    credential: bool = False
    description: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class ActionType:
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    outputs: tuple[str, ...] = ()
    repeatable: Repeatable = Repeatable.NEVER

    def parameter(self, name: str) -> Parameter | None:
        for one in self.parameters:
            if one.name == name or (one.name.endswith("*") and name.startswith(one.name[:-1])):
                return one
        return None

    def is_credential(self, name: str) -> bool:
        """Declared as one, or named like one."""
        declared = self.parameter(name)
        return (declared is not None and declared.credential) or is_telling(name)


@dataclass(frozen=True, slots=True)
class Catalogue:
    types: Mapping[str, ActionType] = field(default_factory=dict[str, ActionType])

    def beside(self, others: Mapping[str, ActionType]) -> "Catalogue":
        """With types that are known elsewhere only."""
        return Catalogue({**others, **self.types}) if others else self


def is_telling(name: str) -> bool:
    """Whether a parameter's name alone says that its value is a credential."""
    return _TELLING.search(name.lower()) is not None
