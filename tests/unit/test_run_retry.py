import pytest
from fix_engine import NOW, QUEUED, a_chain, a_run, an_action, letters

from procession.engine.run import (
    Action,
    Compensation,
    HistoryOutcome,
    Refusal,
    WorkflowState,
    due,
    retry,
)

CANCELLED = {"cancelled_at": QUEUED}
ROLLED_BACK = {"compensation": Compensation.COMPENSATING}
UNDONE = {"compensation": Compensation.COMPENSATED, "completed_at": QUEUED}
FINISHED = {"completed_at": QUEUED}


def retried(run, chain, ordinal, *, lease_live=True, workflow=WorkflowState.ENABLED):
    return retry(run, a_chain(chain), ordinal, now=NOW, lease_live=lease_live, workflow=workflow)


@pytest.mark.parametrize(
    ("letter", "lease_live"), [("F", True), ("U", True), ("K", True), ("W", True), ("R", False)]
)
def test_a_retry_makes_an_action_due_afresh(letter, lease_live):
    action = an_action(
        letter,
        attempts=7,
        failures=4,
        lost=2,
        error="503",
        response_status=503,
        duration_ms=12,
    )
    run = a_run(action, an_action("S"), **({} if letter in "WR" else FINISHED))

    step = retried(run, "C C", 0, lease_live=lease_live)

    assert step.run.actions[0] == Action(attempts=7, in_doubt=letter in "UR")
    assert step.run.completed_at is None
    assert due(step.run, a_chain("C C"), NOW).ordinal == 0
    assert [(one.outcome, one.number) for one in step.history] == (
        [(HistoryOutcome.LOST, 7)] if letter == "R" else []
    )


def test_a_retry_of_a_waiting_action_sends_the_same_body_again():
    waiting = a_run(an_action("W", body="rendered"))

    assert retried(waiting, "C", 0).run.actions[0].body == "rendered"


@pytest.mark.parametrize(
    "action", [an_action("P"), an_action("D"), an_action("W", next_attempt_at=NOW)]
)
def test_a_retry_of_an_action_that_is_due_already_changes_nothing(action):
    run = a_run(action)

    assert retried(run, "C", 0).run is run


def test_a_retry_of_an_action_that_is_due_is_refused_where_the_worker_would_cancel_it():
    refusal = retried(a_run("P"), "C", 0, workflow=WorkflowState.DISABLED)

    assert refusal == Refusal(code="workflow-disabled")


@pytest.mark.parametrize(
    ("chain", "before", "ordinal", "after", "resumed"),
    [
        ("H C C", "F H0 H0", 0, "P P P", 2),
        ("H C C", "U H0 S", 0, "P P S", 1),
        ("H C H C", "F K H0 H0", 0, "P K P P", 2),
        ("C H C", "F F H1", 0, "P F H1", 0),
        ("C H C", "F F H1", 1, "F P P", 1),
        ("H H H C", "F U U H0", 0, "P U U H1", 0),
        ("H H C", "F U H0", 0, "P U H1", 0),  # what would halt itself keeps what is behind it
        ("H C C", "F U H0", 0, "P U P", 1),
        ("H H C", "K F H1", 0, "P F H1", 0),
    ],
)
def test_a_retry_resumes_what_the_halt_had_skipped(chain, before, ordinal, after, resumed):
    step = retried(a_run(before, **FINISHED), chain, ordinal)

    assert (letters(step.run), step.resumed) == (after, resumed)


def test_a_resumed_action_forgets_that_it_was_skipped():
    skipped = an_action("H0", attempts=3, failures=2, response_status=503)

    action = retried(a_run(an_action("F"), skipped, **FINISHED), "H C", 0).run.actions[1]

    assert action == Action(attempts=3, failures=2, response_status=503)


RETRY_REFUSALS = [
    ("H C", "S/P F", ROLLED_BACK | CANCELLED, 0, "run-rolled-back"),
    ("H C", "S/S F", UNDONE, 1, "run-rolled-back"),
    ("C H C", "S/S F H1", UNDONE, 2, "run-rolled-back"),
    ("H C", "S R", CANCELLED, 0, "run-cancelled"),
    ("H C", "S C", FINISHED, 0, "run-cancelled"),
    ("H C", "F S", FINISHED, 1, "action-succeeded"),
    ("H C", "F R", {}, 1, "action-in-flight"),
    ("H C", "F H0", FINISHED, 1, "action-skipped-behind-halt"),
    ("C C", "F F", FINISHED, 1, "workflow-deleted"),
    ("C C", "F P", {}, 1, "workflow-deleted"),
]


@pytest.mark.parametrize(("chain", "before", "changes", "ordinal", "code"), RETRY_REFUSALS)
def test_a_retry_is_refused_with_the_first_code_that_applies(chain, before, changes, ordinal, code):
    run = a_run(before, **changes)

    refusal = retried(run, chain, ordinal, workflow=WorkflowState.DELETED)

    behind_halt = code == "action-skipped-behind-halt"
    assert refusal == Refusal(code=code, halted_by=0 if behind_halt else None)


def test_a_retry_of_a_run_whose_workflow_is_off_is_refused():
    refusal = retried(a_run("F", **FINISHED), "C", 0, workflow=WorkflowState.DISABLED)

    assert refusal == Refusal(code="workflow-disabled")


@pytest.mark.parametrize(
    ("chain", "before", "ordinal", "halted_by"),
    [
        ("H C", "F H0", 1, 0),
        ("C H C C", "S U H1 H1", 3, 1),
        ("H C", "F F", 1, 0),
        ("H C", "U K", 1, 0),
        ("H H C", "F U F", 2, 0),
        ("H H C", "F F H1", 2, 1),
    ],
)
def test_a_retry_behind_a_halt_names_the_action_that_halted(chain, before, ordinal, halted_by):
    refusal = retried(a_run(before, **FINISHED), chain, ordinal)

    assert refusal == Refusal(code="action-skipped-behind-halt", halted_by=halted_by)


@pytest.mark.parametrize(
    ("chain", "before", "ordinal"),
    [("C C", "F F", 1), ("H C", "K F", 1), ("H C", "S F", 1), ("H C", "W F", 1), ("C H", "F F", 0)],
)
def test_only_a_halt_that_stands_before_it_holds_a_retry_back(chain, before, ordinal):
    assert letters(retried(a_run(before), chain, ordinal).run).split()[ordinal] == "P"
