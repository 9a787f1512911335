import pytest
from fix_engine import NOW, PERMANENT, SECOND, a_chain, a_run, an_action, letters
from msgspec.structs import replace

from procession.engine.outcome import Failed, Skipped, Succeeded, Unknown
from procession.engine.run import (
    Compensation,
    HistoryEntry,
    HistoryOutcome,
    RunStatus,
    Status,
    cancel,
    discard,
    due,
    lose,
    release,
    status,
)

WENT_AWAY = "The worker went away before it recorded an outcome."
STOPPED = "The worker stopped before the action ended."
CANCELLED_AT = NOW - SECOND


def in_flight(*, lost=0, repeatable=True, cancelled=False):
    action = an_action(
        "R", lost=lost, repeatable=repeatable, error="503", response_status=503, duration_ms=7
    )
    return a_run(action, an_action("P"), cancelled_at=CANCELLED_AT if cancelled else None)


@pytest.mark.parametrize(
    ("run", "after", "lost", "said"),
    [
        (in_flight(), Status.PENDING, 1, HistoryOutcome.LOST),
        (in_flight(lost=1), Status.PENDING, 2, HistoryOutcome.LOST),
        (in_flight(lost=2), Status.UNKNOWN, 3, HistoryOutcome.LOST),
        (in_flight(repeatable=False), Status.UNKNOWN, 1, HistoryOutcome.UNKNOWN),
        (in_flight(cancelled=True), Status.UNKNOWN, 1, HistoryOutcome.UNKNOWN),
        (in_flight(cancelled=True, lost=2), Status.UNKNOWN, 3, HistoryOutcome.UNKNOWN),
    ],
)
def test_a_lapsed_attempt_is_due_again_or_unknown(run, after, lost, said):
    step = lose(run, a_chain("C C"), now=NOW)

    action = step.run.actions[0]
    assert (action.status, action.lost, action.in_doubt) == (after, lost, True)
    assert (action.attempts, action.failures) == (1, 0)
    assert (action.started_at, action.repeatable) == (None, False)
    assert step.history == (
        HistoryEntry(
            ordinal=0,
            undo=False,
            number=1,
            outcome=said,
            started_at=NOW - SECOND,
            finished_at=NOW,
            error=WENT_AWAY,
        ),
    )


def test_an_action_lost_for_good_says_that_the_worker_went_away():
    action = lose(in_flight(repeatable=False), a_chain("C C"), now=NOW).run.actions[0]

    assert (action.error, action.response_status, action.duration_ms) == (WENT_AWAY, None, None)
    assert action.completed_at == NOW


def test_an_action_that_is_due_again_keeps_what_its_newest_recorded_attempt_said():
    chain = a_chain("C C")
    run = lose(in_flight(), chain, now=NOW).run

    assert (run.actions[0].error, run.actions[0].response_status) == ("503", 503)
    assert due(run, chain, NOW).ordinal == 0


def test_an_unknown_made_by_rescue_halts_and_starts_no_undo():
    run = a_run(an_action("S"), *in_flight(lost=2).actions)

    step = lose(run, a_chain("Cu H C"), now=NOW)

    assert (letters(step.run), step.halted) == ("S U H1", 1)
    assert step.run.completed_at == NOW
    assert step.run.compensation is None


def test_a_lapsed_undo_follows_the_same_table():
    run = a_run("S/R F", compensation=Compensation.COMPENSATING)
    third = replace(run, actions=(an_action("S", undo=an_action("R", lost=2)), an_action("F")))

    again = lose(run, a_chain("Cu H"), now=NOW)
    lost = lose(third, a_chain("Cu H"), now=NOW)

    assert (letters(again.run), again.run.compensation) == ("S/P F", Compensation.COMPENSATING)
    assert (letters(lost.run), lost.run.compensation) == ("S/U F", Compensation.INCOMPLETE)
    assert again.history[0].undo


@pytest.mark.parametrize(
    ("run", "after", "said"),
    [
        (in_flight(), Status.PENDING, HistoryOutcome.RELEASED),
        (in_flight(lost=2), Status.PENDING, HistoryOutcome.RELEASED),
        (in_flight(repeatable=False), Status.UNKNOWN, HistoryOutcome.UNKNOWN),
        (in_flight(cancelled=True), Status.UNKNOWN, HistoryOutcome.UNKNOWN),
    ],
)
def test_a_stopping_worker_gives_back_what_may_be_repeated(run, after, said):
    step = release(run, a_chain("C C"), now=NOW)

    action = step.run.actions[0]
    assert (action.status, action.in_doubt) == (after, True)
    assert action.lost == run.actions[0].lost
    assert (step.history[0].outcome, step.history[0].error) == (said, STOPPED)


@pytest.mark.parametrize("doubt", [False, True])
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_claim_that_was_never_begun_is_in_no_more_doubt_than_before(repeatable, doubt):
    run = a_run(an_action("R", repeatable=repeatable, in_doubt=doubt), an_action("P"))

    step = release(run, a_chain("H C"), now=NOW, started=False)

    assert (letters(step.run), step.run.actions[0].in_doubt) == ("P P", doubt)
    assert (step.history[0].outcome, step.history[0].error) == (HistoryOutcome.RELEASED, STOPPED)
    withdrawn = cancel(step.run, now=NOW, lease_live=False).run
    assert letters(withdrawn) == ("U C" if doubt else "C C")


@pytest.mark.parametrize(("doubt", "after"), [(False, "C C"), (True, "U C")])
def test_a_claim_of_a_cancelled_run_that_was_never_begun_does_not_begin(doubt, after):
    run = a_run(an_action("R", in_doubt=doubt), an_action("C"), cancelled_at=CANCELLED_AT)

    step = release(run, a_chain("C C"), now=NOW, started=False)

    assert letters(step.run) == after
    assert step.run.completed_at == NOW


def test_a_release_that_ends_as_unknown_halts():
    step = release(in_flight(repeatable=False), a_chain("H C"), now=NOW)

    assert letters(step.run) == "U H0"
    assert status(step.run) is RunStatus.FAILED


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Succeeded(), "late outcome Succeeded, not applied"),
        (Failed("503", retryable=True), "late outcome Failed, not applied: 503"),
        (Unknown("cut"), "late outcome Unknown, not applied: cut"),
        (Skipped("gone"), "late outcome Skipped, not applied: gone"),
    ],
)
def test_a_late_outcome_is_told_in_the_history_only(outcome, error):
    entry = discard(0, False, 1, outcome, now=NOW)

    assert (entry.outcome, entry.error) == (HistoryOutcome.DISCARDED, error)
    assert (entry.ordinal, entry.undo, entry.number, entry.finished_at) == (0, False, 1, NOW)


def test_a_late_outcome_is_told_with_what_is_known_of_its_attempt():
    started_at = NOW - 60 * SECOND
    known = {"now": NOW, "started_at": started_at, "duration_ms": 60_000}

    entry = discard(1, True, 3, PERMANENT, **known)

    assert entry == HistoryEntry(
        ordinal=1,
        undo=True,
        number=3,
        outcome=HistoryOutcome.DISCARDED,
        started_at=started_at,
        finished_at=NOW,
        response_status=400,
        error="late outcome Failed, not applied: 400",
        retryable=False,
        duration_ms=60_000,
    )


def test_the_error_of_a_late_outcome_stays_short():
    entry = discard(0, True, 1, Failed("e" * 500), now=NOW)

    assert len(entry.error) == 500


def test_an_outcome_needs_an_action_in_flight():
    with pytest.raises(AssertionError):
        lose(a_run("P"), a_chain("C"), now=NOW)
