"""Runs and definitions written as a person would on paper: `a_run("S F H0")`, `a_chain("H C")`."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from procession.engine.outcome import Failed
from procession.engine.run import Action, Run, Status
from procession.engine.workflow import ActionDefinition, Compensate, Definition, OnFailure

QUEUED = datetime(2026, 11, 30, 8, tzinfo=UTC)
NOW = QUEUED + timedelta(minutes=5)
SECOND = timedelta(seconds=1)
LATER = NOW + 30 * SECOND

RETRYABLE = Failed("503", retryable=True, response_status=503)
PERMANENT = Failed("400", response_status=400)

LETTERS = {
    "P": Action(),
    "W": Action(attempts=1, failures=1, next_attempt_at=LATER, error="503", response_status=503),
    "D": Action(attempts=1, in_doubt=True),  # due again, though it may have gone out
    "R": Action(status=Status.RUNNING, attempts=1, repeatable=True, started_at=NOW - SECOND),
    "S": Action(status=Status.SUCCEEDED, attempts=1, completed_at=QUEUED),
    "F": Action(status=Status.FAILED, attempts=1, failures=1, retryable=False, completed_at=QUEUED),
    "U": Action(status=Status.UNKNOWN, attempts=1, in_doubt=True, completed_at=QUEUED),
    "C": Action(status=Status.CANCELLED, completed_at=QUEUED),
    "K": Action(status=Status.SKIPPED, attempts=1, error="no entry", completed_at=QUEUED),
    "N": Action(status=Status.NOT_DECLARED),  # of an undo
}


def an_action(word: str, **changes) -> Action:
    """One of `LETTERS`; `H0` is skipped behind the halt of action 0, `S/P` has its undo pending."""
    letter, _, undo = word.partition("/")
    if letter.startswith("H"):
        action = Action(
            status=Status.SKIPPED, halted_by=int(letter[1:]), error="halted", completed_at=QUEUED
        )
    else:
        action = LETTERS[letter]
    return replace(action, **({"undo": LETTERS[undo]} if undo else {}) | changes)


def a_run(actions: str | Action, *more: Action, **changes) -> Run:
    """A run of actions in letters, or of the given ones."""
    if isinstance(actions, str):
        made = tuple(an_action(word) for word in actions.split())
    else:
        made = (actions, *more)
    return replace(Run(created_at=QUEUED, actions=made), **changes)


def a_chain(letters: str) -> Definition:
    """A definition of actions that halt (H) or continue (C), with an undo where a `u` follows."""
    return Definition(
        name="chain",
        trigger_content_types=("Article",),
        trigger_events=("Published",),
        actions=tuple(
            ActionDefinition(
                type=f"Type{ordinal}",
                on_failure=OnFailure.HALT if word[0] == "H" else OnFailure.CONTINUE,
                capture=("id", "note"),
                compensate=Compensate(type=f"Undo{ordinal}") if word.endswith("u") else None,
            )
            for ordinal, word in enumerate(letters.split())
        ),
    )


def letters(run: Run) -> str:
    """The run's actions in letters, to compare with what they should be."""
    return " ".join(_letter(one) for one in run.actions)


def _letter(action: Action) -> str:
    match action.status:
        case Status.PENDING:
            letter = "W" if action.next_attempt_at else "P"
        case Status.SKIPPED if action.halted_by is not None:
            letter = f"H{action.halted_by}"
        case Status.SKIPPED:
            letter = "K"
        case status:
            letter = status[0]
    return letter if action.undo is None else f"{letter}/{_letter(action.undo)}"
