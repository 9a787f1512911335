import pytest
from fix_engine import NOW, QUEUED, a_chain, a_run

from procession.engine.run import Compensation, RunStatus, start, status
from procession.engine.status import settled

CANCELLED = {"cancelled_at": NOW}


@pytest.mark.parametrize(
    ("letters", "changes", "expected"),
    [
        ("", {}, "Succeeded"),
        ("", CANCELLED, "Succeeded"),
        ("P P", {}, "Pending"),
        ("W", {}, "Pending"),
        ("R", {}, "Running"),
        ("S P", {}, "Running"),
        ("F P", {}, "Running"),
        ("S S", {}, "Succeeded"),
        ("S F", {}, "PartiallyFailed"),
        ("S S F", {}, "PartiallyFailed"),
        ("F F", {}, "Failed"),
        ("U", {}, "Failed"),
        ("F U", {}, "Failed"),
        ("S U", {}, "PartiallyFailed"),
        ("K", {}, "Succeeded"),
        ("S K", {}, "Succeeded"),
        ("F K", {}, "PartiallyFailed"),
        ("F H0", {}, "Failed"),
        ("U H0", {}, "Failed"),
        ("S F H1", {}, "PartiallyFailed"),
        ("S C", {}, "Cancelled"),
        ("C C", {}, "Cancelled"),
        ("S R", CANCELLED, "Running"),
        ("S S", CANCELLED, "Cancelled"),
        ("P P", CANCELLED, "Pending"),
        ("S/P F H1", {}, "Running"),
        ("S/R F H1", {}, "Running"),
        ("S/S F H1", {}, "PartiallyFailed"),
        ("S/F F H1", {}, "PartiallyFailed"),
        ("S/S C F", {}, "Cancelled"),
        ("S/S F", {"abandoned_at": NOW}, "PartiallyFailed"),
    ],
)
def test_the_status_is_the_first_rule_that_applies(letters, changes, expected):
    assert status(a_run(letters, **changes)) == expected


def test_a_run_without_actions_is_finished_when_it_is_queued():
    run = start(a_chain(""), NOW)

    assert (status(run), run.completed_at) == (RunStatus.SUCCEEDED, NOW)


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("S/S S/S F", Compensation.COMPENSATED),
        ("S/S S/F F", Compensation.INCOMPLETE),
        ("S/S S/U F", Compensation.INCOMPLETE),
        ("S/S S/C F", Compensation.INCOMPLETE),
        ("S/S S/N F", Compensation.INCOMPLETE),
        ("S/S S/P F", Compensation.COMPENSATING),
        ("S/R S/S F", Compensation.COMPENSATING),
    ],
)
def test_a_rollback_is_complete_when_all_that_succeeded_is_undone(letters, expected):
    run = settled(a_run(letters, compensation=Compensation.COMPENSATING), NOW)

    assert run.compensation is expected


@pytest.mark.parametrize(
    ("letters", "before", "after"),
    [("S F", None, NOW), ("S F", QUEUED, QUEUED), ("S P", QUEUED, None), ("S P", None, None)],
)
def test_a_run_has_an_end_while_it_is_finished(letters, before, after):
    assert settled(a_run(letters, completed_at=before), NOW).completed_at == after


def test_a_run_that_was_never_rolled_back_has_no_compensation():
    assert settled(a_run("S F"), NOW).compensation is None
