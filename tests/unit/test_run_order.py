import pytest
from fix_engine import LATER, NOW, QUEUED, SECOND, a_chain, a_run, an_action

from procession.engine.run import Compensation, Due, Status, claim, due, running, start

SOON = LATER - 10 * SECOND


@pytest.mark.parametrize(
    ("chain", "letters", "at", "ordinal"),
    [
        ("C C", "P P", QUEUED, 0),
        ("C C", "S P", QUEUED, 1),
        ("H C", "S P", QUEUED, 1),
        ("H C", "K P", QUEUED, 1),
        ("C C", "F P", QUEUED, 1),
        ("C C", "U P", QUEUED, 1),
        ("H C", "W P", LATER, 0),
        ("C C", "W P", QUEUED, 1),
        ("C H C", "W W P", LATER, 0),
        ("C C", "W S", LATER, 0),
        ("C C C", "W W P", QUEUED, 2),
    ],
)
def test_the_walk_takes_what_may_go_first(chain, letters, at, ordinal):
    assert due(a_run(letters), a_chain(chain), NOW) == Due(at, ordinal, False, f"Type{ordinal}")


@pytest.mark.parametrize(
    ("chain", "letters"),
    [
        ("C C", "S R"),
        ("C C", "W R"),
        ("C C", "P R"),
        ("H C", "P R"),
        ("C C", "R P"),
        ("C C", "S S"),
        ("C C", "S C"),
        ("H C", "F H0"),
        ("", ""),
    ],
)
def test_nothing_is_next_while_one_is_in_flight_or_when_all_ended(chain, letters):
    assert due(a_run(letters), a_chain(chain), NOW) is None


@pytest.mark.parametrize(
    ("chain", "now", "at", "ordinal"),
    [
        ("C C", NOW, SOON, 1),  # the earlier of two that wait
        ("H C", NOW, LATER, 0),  # a halt holds the later one back
        ("C C", SOON, QUEUED, 1),
        ("C C", LATER, QUEUED, 0),  # both are due: the lower ordinal
    ],
)
def test_of_two_that_wait_the_earlier_is_next_unless_the_first_halts(chain, now, at, ordinal):
    run = a_run(an_action("W"), an_action("W", next_attempt_at=SOON))

    assert due(run, a_chain(chain), now) == Due(at, ordinal, False, f"Type{ordinal}")


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("S/P S/P F", Due(QUEUED, 1, True, "Undo1")),
        ("S/P S/W F", Due(LATER, 1, True, "Undo1")),  # one that waits holds the earlier ones back
        ("S/P S/F F", Due(QUEUED, 0, True, "Undo0")),
        ("S/P S/U F", Due(QUEUED, 0, True, "Undo0")),
        ("S/P S/N F", Due(QUEUED, 0, True, "Undo0")),
        ("S/P F F", Due(QUEUED, 0, True, "Undo0")),
        ("S/P S/R F", None),
        ("S/S S/S F", None),
    ],
)
def test_undos_go_from_the_highest_ordinal_down(letters, expected):
    run = a_run(letters, compensation=Compensation.COMPENSATING)

    assert due(run, a_chain("Cu Cu H"), NOW) == expected


def test_a_claim_puts_the_action_in_flight_under_the_next_number():
    run = a_run("S W")

    claimed = claim(run, Due(LATER, 1, False, "Type1"), LATER, repeatable=True)

    action = claimed.actions[1]
    assert running(claimed) == (1, False)
    assert (action.attempts, action.failures, action.next_attempt_at) == (2, 1, None)
    assert (action.started_at, action.repeatable) == (LATER, True)
    assert (action.error, action.response_status) == ("503", 503)
    assert claimed.actions[0] == run.actions[0]


def test_a_claim_of_an_undo_leaves_its_action_as_it_is():
    run = a_run("S/P F", compensation=Compensation.COMPENSATING)

    claimed = claim(run, Due(QUEUED, 0, True, "Undo0"), NOW, repeatable=False)

    assert running(claimed) == (0, True)
    assert claimed.actions[0].status is Status.SUCCEEDED
    assert claimed.actions[0].undo.attempts == 1


def test_what_is_in_flight_is_not_claimed():
    with pytest.raises(AssertionError):
        claim(a_run("R"), Due(QUEUED, 0, False, "Type0"), NOW, repeatable=True)


def test_a_run_starts_with_its_first_action_due():
    chain = a_chain("C C")

    run = start(chain, QUEUED)

    assert run == a_run("P P")
    assert due(run, chain, NOW) == Due(QUEUED, 0, False, "Type0")
