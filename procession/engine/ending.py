"""The end of an attempt, whatever ended it: what it was leaves, and what follows from that.

A recorded outcome, a lost lease, a worker that stops and a person who force-ends all come through
here, so a halt, a rollback and the run's own end follow in one way.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from procession.engine.document import (
    Action,
    HistoryEntry,
    HistoryOutcome,
    Run,
    Status,
    Step,
    at,
    put,
    running,
)
from procession.engine.halt import halt
from procession.engine.status import settled
from procession.engine.workflow import Definition


@dataclass(frozen=True, slots=True)
class InFlight:
    """The attempt that is to end."""

    ordinal: int
    undo: bool
    action: Action

    def entry(
        self, outcome: HistoryOutcome, error: str | None, finished_at: datetime
    ) -> HistoryEntry:
        """Its history entry, when no answer is known."""
        return HistoryEntry(
            ordinal=self.ordinal,
            undo=self.undo,
            number=self.action.attempts,
            outcome=outcome,
            started_at=self.action.started_at,
            finished_at=finished_at,
            error=error,
        )


def in_flight(run: Run) -> InFlight:
    """The attempt in flight, of a run that has one."""
    place = running(run)
    assert place is not None, "nothing is in flight"
    ordinal, undo = place
    return InFlight(ordinal, undo, at(run, ordinal, undo=undo))


def doubtful(attempt: InFlight, error: str) -> Action:
    """The action when its attempt may have gone out and only a person may repeat it."""
    return replace(
        attempt.action,
        status=Status.UNKNOWN,
        in_doubt=True,
        error=error,
        response_status=None,
        duration_ms=None,
    )


def put_back(attempt: InFlight) -> Action:
    """The action due again at once, though its attempt may have gone out."""
    return replace(attempt.action, status=Status.PENDING, in_doubt=True)


def left(run: Run, entry: HistoryEntry, after: Action) -> Run:
    """The run with what the attempt of this entry left behind in its place."""
    after = replace(after, started_at=None, repeatable=False)
    if after.status is not Status.PENDING:
        after = replace(after, completed_at=entry.finished_at, body=None)
    return put(run, entry.ordinal, after, undo=entry.undo)


def ended(run: Run, definition: Definition, entry: HistoryEntry, after: Action) -> Step:
    """The step once the attempt of this entry has left this behind, with all that follows."""
    run, halted = halt(left(run, entry, after), definition, entry.ordinal, entry.finished_at)
    return Step(run=settled(run, entry.finished_at), history=(entry,), halted=halted)
