"""What a rehearsal tells: an attempt that was made, and why there is none."""

from dataclasses import dataclass
from datetime import datetime

from procession.engine.outcome import Outcome


class NotFiredError(Exception):
    """The entry does not fire the workflow; the message says by what it does not."""


class RefusedError(Exception):
    """A command may not be carried out; the message is the code that the API would answer."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that was made, and what came of it; of a lost one nobody was told."""

    ordinal: int
    undo: bool
    number: int
    type: str
    at: datetime
    outcome: Outcome
    lost: bool = False
