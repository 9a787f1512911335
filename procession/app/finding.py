"""What came of a look at an installation."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What became of a look."""

    OK = "ok"
    WARNING = "warning"  # it goes on so, and may not be meant
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One look, what was seen, and what helps."""

    name: str
    state: State
    says: str
    helps: str = ""
