"""Attempts that end without an outcome, and outcomes that come too late."""

from datetime import datetime

from msgspec.structs import replace

from procession.engine.document import HistoryEntry, HistoryOutcome, Run, Status, Step
from procession.engine.ending import doubtful, ended, in_flight, put_back
from procession.engine.halt import withdraw
from procession.engine.outcome import Failed, Outcome
from procession.engine.settle import MAX_ERROR
from procession.engine.workflow import Definition

LOSSES = 3  # in a row, after which a repeatable action is Unknown: it may be what ends its workers

WENT_AWAY = "The worker went away before it recorded an outcome."
STOPPED = "The worker stopped before the action ended."


def lose(run: Run, definition: Definition, *, now: datetime) -> Step:
    """The run once the lease of its action in flight has lapsed."""
    attempt = in_flight(run)
    losses = attempt.action.lost + 1
    again = attempt.action.repeatable and run.cancelled_at is None
    after = doubtful(attempt, WENT_AWAY)
    if again and losses < LOSSES:
        after = put_back(attempt)
    said = HistoryOutcome.LOST if again else HistoryOutcome.UNKNOWN
    entry = attempt.entry(said, WENT_AWAY, now)
    return ended(run, definition, entry, replace(after, lost=losses))


def release(
    run: Run,
    definition: Definition,
    *,
    now: datetime,
    started: bool = True,
    body: str | None = None,
) -> Step:
    """The run once a worker that stops has given its action in flight back.

    A claim that was never started is given back whatever its type, for it cannot have gone out;
    what it was in doubt before, it still is. The body that may have gone out is kept: the next
    attempt sends the same bytes.
    """
    attempt = in_flight(run)
    again = not started or (attempt.action.repeatable and run.cancelled_at is None)
    if not again:
        after = doubtful(attempt, STOPPED)
    elif started:
        after = put_back(attempt)
    else:
        after = replace(attempt.action, status=Status.PENDING)
    if not started and run.cancelled_at is not None:
        after = withdraw(after, now)
    after = replace(after, body=body or after.body)
    said = HistoryOutcome.RELEASED if again else HistoryOutcome.UNKNOWN
    return ended(run, definition, attempt.entry(said, STOPPED, now), after)


def discard(  # noqa: PLR0913 - all that a late attempt is known by
    ordinal: int,
    undo: bool,
    number: int,
    outcome: Outcome,
    *,
    now: datetime,
    started_at: datetime | None = None,
    duration_ms: int | None = None,
) -> HistoryEntry:
    """What the history says of an outcome whose lease is gone. The run stays as it is."""
    said = f"late outcome {type(outcome).__name__}, not applied"
    if outcome.error:
        said = f"{said}: {outcome.error}"
    return HistoryEntry(
        ordinal=ordinal,
        undo=undo,
        number=number,
        outcome=HistoryOutcome.DISCARDED,
        started_at=started_at,
        finished_at=now,
        response_status=outcome.response_status,
        error=said[:MAX_ERROR],
        retryable=outcome.retryable if isinstance(outcome, Failed) else None,
        duration_ms=duration_ms,
    )
