from datetime import timedelta

import pytest
from fix_engine import NOW, PERMANENT, RETRYABLE, SECOND, a_chain, a_run, an_action

from procession.engine.outcome import Failed, Skipped, Succeeded, Unknown
from procession.engine.run import (
    Action,
    HistoryEntry,
    HistoryOutcome,
    Status,
    backoff,
    settle,
)

CANCELLED = {"cancelled_at": NOW - SECOND}
DONE = Succeeded(response_status=200)


def settled(run, chain, outcome, **known):
    known = {"now": NOW, "jitter": 0.0, "duration_ms": 12, "body": None} | known
    return settle(run, a_chain(chain), outcome, **known)


@pytest.mark.parametrize(
    ("failures", "outcome", "changes", "expected", "said"),
    [
        (0, DONE, {}, {"status": Status.SUCCEEDED}, "Succeeded"),
        (0, DONE, CANCELLED, {"status": Status.SUCCEEDED}, "Succeeded"),
        (
            0,
            RETRYABLE,
            {},
            {"status": Status.PENDING, "failures": 1, "next_attempt_at": NOW + 10 * SECOND},
            "Retried",
        ),
        (
            3,
            RETRYABLE,
            {},
            {"status": Status.PENDING, "failures": 4, "next_attempt_at": NOW + 80 * SECOND},
            "Retried",
        ),
        (4, RETRYABLE, {}, {"status": Status.FAILED, "failures": 5, "retryable": True}, "Failed"),
        (
            0,
            RETRYABLE,
            CANCELLED,
            {"status": Status.FAILED, "failures": 1, "retryable": True},
            "Failed",
        ),
        (0, PERMANENT, {}, {"status": Status.FAILED, "failures": 1, "retryable": False}, "Failed"),
        (
            0,
            PERMANENT,
            CANCELLED,
            {"status": Status.FAILED, "failures": 1, "retryable": False},
            "Failed",
        ),
        (2, Unknown("cut"), {}, {"status": Status.UNKNOWN, "in_doubt": True}, "Unknown"),
        (2, Unknown("cut"), CANCELLED, {"status": Status.UNKNOWN, "in_doubt": True}, "Unknown"),
        (0, Skipped("gone"), {}, {"status": Status.SKIPPED}, "Skipped"),
        (0, Skipped("gone"), CANCELLED, {"status": Status.SKIPPED}, "Skipped"),
    ],
)
def test_an_outcome_settles_the_action_in_flight(failures, outcome, changes, expected, said):
    run = a_run(an_action("R", failures=failures, lost=2, error="an older one"), **changes)

    step = settled(run, "C", outcome)

    assert step.run.actions == (
        Action(
            **{"attempts": 1, "failures": failures, "completed_at": NOW}
            | ({"completed_at": None} if "next_attempt_at" in expected else {})
            | {"error": outcome.error, "response_status": outcome.response_status}
            | {"duration_ms": 12}
            | expected
        ),
    )
    assert step.history == (
        HistoryEntry(
            ordinal=0,
            undo=False,
            number=1,
            outcome=HistoryOutcome(said),
            started_at=NOW - SECOND,
            finished_at=NOW,
            response_status=outcome.response_status,
            error=outcome.error,
            retryable=outcome.retryable if isinstance(outcome, Failed) else None,
            duration_ms=12,
        ),
    )
    assert (step.run.completed_at is None) == (said == "Retried")


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [
        (1, 10, 12.5),
        (2, 20, 25),
        (3, 40, 50),
        (4, 80, 100),
        (5, 160, 200),
        (6, 320, 400),
        (7, 600, 750),
        (8, 600, 750),
        (50, 600, 750),
    ],
)
def test_each_wait_is_twice_the_last_and_at_most_ten_minutes(failures, least, most):
    waits = backoff(failures, 0.0), backoff(failures, 1.0)

    assert waits == (timedelta(seconds=least), timedelta(seconds=most))


def test_only_a_success_ends_the_doubt():
    doubted = a_run(an_action("R", in_doubt=True))

    assert not settled(doubted, "C", DONE).run.actions[0].in_doubt
    assert settled(doubted, "C", RETRYABLE).run.actions[0].in_doubt
    assert settled(doubted, "C", PERMANENT).run.actions[0].in_doubt
    assert settled(doubted, "C", Skipped("gone")).run.actions[0].in_doubt


def test_a_body_is_kept_from_the_first_recorded_attempt_to_the_end():
    waiting = settled(a_run("R"), "C", RETRYABLE, body="first").run
    again = a_run(an_action("R", body=waiting.actions[0].body))

    assert waiting.actions[0].body == "first"
    assert settled(again, "C", RETRYABLE).run.actions[0].body == "first"
    assert settled(again, "C", DONE).run.actions[0].body is None
    assert settled(again, "C", PERMANENT).run.actions[0].body is None
