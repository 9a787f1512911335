"""From an outcome to the next state of the run."""

from datetime import datetime

from msgspec.structs import replace

from procession.engine.backoff import FAILURES, backoff
from procession.engine.captures import captured
from procession.engine.document import Action, HistoryOutcome, Run, Status, Step, at, put
from procession.engine.ending import ended, in_flight
from procession.engine.halt import halt
from procession.engine.order import due
from procession.engine.outcome import Failed, Outcome, Skipped, Succeeded, Unknown
from procession.engine.status import settled
from procession.engine.workflow import Definition

MAX_ERROR = 500  # characters, as the history's table demands


def settle(  # noqa: PLR0913 - all that a recorded attempt is known by
    run: Run,
    definition: Definition,
    outcome: Outcome,
    *,
    now: datetime,
    jitter: float,
    duration_ms: int | None = None,
    body: str | None = None,
) -> Step:
    """The run once the action in flight has had this outcome."""
    attempt = in_flight(run)
    error = outcome.error
    if isinstance(outcome, Succeeded) and not attempt.undo:
        run, error = _keep_outputs(run, definition, attempt.ordinal, outcome)
    recorded = replace(
        attempt.action,
        lost=0,
        response_status=outcome.response_status,
        error=error,
        duration_ms=duration_ms,
        body=body or attempt.action.body,
    )
    after, said = _after(recorded, outcome, run, now=now, jitter=jitter)
    if attempt.undo and after.status is Status.SKIPPED:
        after = replace(after, status=Status.SUCCEEDED)  # nothing was left to take back
    entry = replace(
        attempt.entry(said, error, now),
        response_status=outcome.response_status,
        retryable=outcome.retryable if isinstance(outcome, Failed) else None,
        duration_ms=duration_ms,
    )
    return ended(run, definition, entry, after)


def unserved(run: Run, definition: Definition, type_: str, *, now: datetime) -> Step:
    """The run once it is certain that no worker serves this type; as it is if another is due.

    No attempt was made, so there is no history entry; what follows a failure follows all the same.
    """
    found = due(run, definition, now)
    if found is None or found.at > now or found.type != type_:
        return Step(run=run)
    failed = replace(
        at(run, found.ordinal, undo=found.undo),
        status=Status.FAILED,
        retryable=False,
        error=f"No worker serves the action type {found.type}.",
        completed_at=now,
        next_attempt_at=None,
        body=None,
    )
    run = put(run, found.ordinal, failed, undo=found.undo)
    run, halted = halt(run, definition, found.ordinal, now)
    return Step(run=settled(run, now), halted=halted)


def _after(
    action: Action, outcome: Outcome, run: Run, *, now: datetime, jitter: float
) -> tuple[Action, HistoryOutcome]:
    match outcome:
        case Succeeded():
            after = replace(action, status=Status.SUCCEEDED, in_doubt=False)
            return after, HistoryOutcome.SUCCEEDED
        case Skipped():
            return replace(action, status=Status.SKIPPED), HistoryOutcome.SKIPPED
        case Unknown():
            return replace(action, status=Status.UNKNOWN, in_doubt=True), HistoryOutcome.UNKNOWN
        case Failed(retryable=retryable):
            failures = action.failures + 1
            action = replace(action, failures=failures)
            if retryable and failures < FAILURES and run.cancelled_at is None:
                wait = backoff(failures, jitter)
                after = replace(action, status=Status.PENDING, next_attempt_at=now + wait)
                return after, HistoryOutcome.RETRIED
            return replace(action, status=Status.FAILED, retryable=retryable), HistoryOutcome.FAILED


def _keep_outputs(
    run: Run, definition: Definition, ordinal: int, outcome: Succeeded
) -> tuple[Run, str | None]:
    """The run with what the definition captures, and the error that names what was not kept."""
    kept, refused = captured(definition.actions[ordinal].capture, outcome.outputs)
    if kept:
        run = replace(run, outputs=run.outputs | {ordinal: kept})
    said = " ".join(one for one in (outcome.error, refused) if one)
    return run, said[:MAX_ERROR] or None
