"""What performing an action gave.

An outcome is a value: an action returns one, whatever it raises is made into one, and
`engine.run.settle` says what becomes of the run. An error is redacted before it gets this far.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Succeeded:
    """It was done. The outputs that the definition captures are kept, the others are dropped."""

    outputs: Mapping[str, object] = field(default_factory=dict[str, object])
    response_status: int | None = None
    error: str | None = None  # what was not kept of the outputs; the action succeeded all the same


@dataclass(frozen=True, slots=True)
class Failed:
    """It was not done. Retryable: tried again by itself; otherwise it waits for a person."""

    error: str
    retryable: bool = False
    response_status: int | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have been done; only a person's word repeats it."""

    error: str
    response_status: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to do. It counts as good and halts nothing."""

    error: str
    response_status: int | None = None


Outcome = Succeeded | Failed | Unknown | Skipped
