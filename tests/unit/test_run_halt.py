import pytest
from fix_engine import LATER, NOW, PERMANENT, RETRYABLE, SECOND, a_chain, a_run, an_action, letters

from procession.engine.outcome import Skipped, Succeeded, Unknown
from procession.engine.run import (
    Action,
    Compensation,
    RunStatus,
    Status,
    due,
    settle,
    status,
    unserved,
)

CANCELLED = {"cancelled_at": NOW - SECOND}
ROLLED_BACK = {"compensation": Compensation.COMPENSATING}
DONE = Succeeded(response_status=200)


def settled(run, chain, outcome, **known):
    known = {"now": NOW, "jitter": 0.0, "duration_ms": 12, "body": None} | known
    return settle(run, a_chain(chain), outcome, **known)


@pytest.mark.parametrize(
    ("chain", "before", "outcome", "after", "halted"),
    [
        ("H C C", "R P P", PERMANENT, "F H0 H0", 2),
        ("H C C", "R P P", Unknown("cut"), "U H0 H0", 2),
        ("H C C", "R P P", RETRYABLE, "W P P", 0),
        ("H C C", "R P P", DONE, "S P P", 0),
        ("H C C", "R P P", Skipped("gone"), "K P P", 0),
        ("C C C", "R P P", PERMANENT, "F P P", 0),
        ("C H C", "W R P", PERMANENT, "W F H1", 1),  # the one before keeps its back-off
        ("H C C", "R S P", PERMANENT, "F S H0", 1),
        ("H C C", "R W P", PERMANENT, "F H0 H0", 2),
        ("H C C", "R D P", PERMANENT, "F U H0", 1),  # it may have gone out: not Skipped
        ("H C C", "R F U", PERMANENT, "F F U", 0),
        ("H C C", "R H1 P", PERMANENT, "F H1 H0", 1),
        ("C H", "P R", PERMANENT, "P F", 0),
    ],
)
def test_a_halt_skips_what_is_pending_behind_it(chain, before, outcome, after, halted):
    step = settled(a_run(before), chain, outcome)

    assert (letters(step.run), step.halted) == (after, halted)
    assert step.run.compensation is None


def test_a_skipped_action_says_why_and_keeps_what_it_had():
    run = a_run(an_action("R"), an_action("W", body="rendered"))

    skipped = settled(run, "H C", PERMANENT).run.actions[1]

    assert skipped == Action(
        status=Status.SKIPPED,
        halted_by=0,
        attempts=1,
        failures=1,
        error="An earlier action halted the run.",
        response_status=503,
        completed_at=NOW,
    )


@pytest.mark.parametrize(
    ("chain", "before", "outcome", "after", "compensation"),
    [
        ("Cu H C", "S R P", PERMANENT, "S/P F H1", Compensation.COMPENSATING),
        ("C H Cu", "S R P", PERMANENT, "S/N F H1", Compensation.INCOMPLETE),
        ("C Cu H C", "S S R P", PERMANENT, "S/N S/P F H2", Compensation.COMPENSATING),
        ("Cu C H C", "S W R P", PERMANENT, "S/P C F H2", Compensation.COMPENSATING),
        ("Cu C H C", "S D R P", PERMANENT, "S/P U F H2", Compensation.COMPENSATING),
        ("C H Cu", "P R S", PERMANENT, "C F S/P", Compensation.COMPENSATING),
        ("Cu H C", "S R P", Unknown("cut"), "S U H1", None),
        ("Cu C C", "S R P", PERMANENT, "S F P", None),
        ("Cu H C", "F R P", PERMANENT, "F F H1", None),
        ("C H C", "S R P", PERMANENT, "S F H1", None),
        ("Cu H C", "S R C", PERMANENT, "S F C", None),
    ],
)
def test_a_halt_for_good_starts_the_undos_of_what_succeeded(
    chain, before, outcome, after, compensation
):
    changes = CANCELLED if "C" in before else {}

    step = settled(a_run(before, **changes), chain, outcome)

    assert (letters(step.run), step.run.compensation) == (after, compensation)


def test_a_rollback_without_an_undo_to_make_ends_at_once():
    step = settled(a_run("S R P"), "C H Cu", PERMANENT)

    assert status(step.run) is RunStatus.PARTIALLY_FAILED
    assert step.run.completed_at == NOW


@pytest.mark.parametrize(
    ("before", "outcome", "after", "compensation", "completed_at"),
    [
        ("S/P S/R F", DONE, "S/P S/S F", Compensation.COMPENSATING, None),
        ("S/P S/R F", RETRYABLE, "S/P S/W F", Compensation.COMPENSATING, None),
        ("S/P S/R F", PERMANENT, "S/P S/F F", Compensation.COMPENSATING, None),
        ("S/P S/R F", Unknown("cut"), "S/P S/U F", Compensation.COMPENSATING, None),
        ("S/R S/S F", DONE, "S/S S/S F", Compensation.COMPENSATED, NOW),
        ("S/R S/S F", Skipped("nothing there"), "S/S S/S F", Compensation.COMPENSATED, NOW),
        ("S/R S/S F", PERMANENT, "S/F S/S F", Compensation.INCOMPLETE, NOW),
        ("S/R S/S F", Unknown("cut"), "S/U S/S F", Compensation.INCOMPLETE, NOW),
    ],
)
def test_an_undo_settles_like_an_action_and_halts_nothing(
    before, outcome, after, compensation, completed_at
):
    step = settled(a_run(before, **ROLLED_BACK), "Hu Hu H", outcome)

    assert letters(step.run) == after
    assert (step.run.compensation, step.run.completed_at) == (compensation, completed_at)
    assert step.history[0].undo


def test_an_undo_fails_for_good_at_its_own_fifth_failure():
    fourth = an_action("S", failures=4, undo=an_action("R", failures=3))
    fifth = an_action("S", undo=an_action("R", failures=4))

    waits = settled(a_run(fourth, **ROLLED_BACK), "Cu", RETRYABLE)
    failed = settled(a_run(fifth, **ROLLED_BACK), "Cu", RETRYABLE)

    assert letters(waits.run) == "S/W"
    assert letters(failed.run) == "S/F"


def test_in_a_cancelled_run_a_failing_undo_is_not_tried_again():
    step = settled(a_run("S/R F", **ROLLED_BACK, **CANCELLED), "Cu H", RETRYABLE)

    assert letters(step.run) == "S/F F"
    assert status(step.run) is RunStatus.CANCELLED
    assert step.run.compensation is Compensation.INCOMPLETE


@pytest.mark.parametrize(
    ("chain", "before", "changes", "after", "halted"),
    [
        ("C C", "P P", {}, "F P", 0),
        ("H C", "P P", {}, "F H0", 1),
        ("Cu H C", "S P P", {}, "S/P F H1", 1),
        ("Hu Hu H", "S/P S/P F", ROLLED_BACK, "S/P S/F F", 0),
    ],
)
def test_an_action_whose_type_nobody_serves_has_failed(chain, before, changes, after, halted):
    run, used = a_run(before, **changes), a_chain(chain)

    step = unserved(run, used, due(run, used, NOW).type, now=NOW)

    assert (letters(step.run), step.halted, step.history) == (after, halted, ())


def test_an_unserved_action_names_its_type_and_no_attempt_is_counted():
    waited = an_action("W", next_attempt_at=NOW, body="rendered")

    step = unserved(a_run(waited), a_chain("C"), "Type0", now=NOW)

    assert step.run.actions[0] == Action(
        status=Status.FAILED,
        attempts=1,
        failures=1,
        retryable=False,
        error="No worker serves the action type Type0.",
        response_status=503,
        completed_at=NOW,
    )
    assert step.run.completed_at == NOW


@pytest.mark.parametrize("letters", ["W", "R", "S"])
def test_nothing_is_unserved_that_is_not_due(letters):
    run = a_run(letters)

    assert unserved(run, a_chain("C"), "Type0", now=NOW).run is run
    later = unserved(a_run("W"), a_chain("C"), "Type0", now=LATER)
    assert later.run.actions[0].status is Status.FAILED


def test_nothing_is_unserved_but_the_type_that_was_found_to_be():
    run = a_run("W P")

    assert unserved(run, a_chain("C C"), "Type1", now=LATER).run is run
    assert unserved(run, a_chain("C C"), "Type1", now=NOW).run.actions[1].status is Status.FAILED
