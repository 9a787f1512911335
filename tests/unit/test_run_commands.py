import pytest
from fix_engine import NOW, QUEUED, SECOND, a_chain, a_run, an_action, letters
from msgspec.structs import replace

from procession.engine.run import (
    Action,
    Compensation,
    HistoryEntry,
    HistoryOutcome,
    Refusal,
    RunStatus,
    Status,
    WorkflowState,
    abandon,
    cancel,
    due,
    force_end,
    retry,
    status,
    stop,
)

WENT_AWAY = "The worker went away before it recorded an outcome."
FORCE_ENDED = "The run was force-ended before the action's outcome was recorded."

CANCELLED = {"cancelled_at": QUEUED}
ROLLED_BACK = {"compensation": Compensation.COMPENSATING}
UNDONE = {"compensation": Compensation.COMPENSATED, "completed_at": QUEUED}
FINISHED = {"completed_at": QUEUED}


def retried(run, chain, ordinal, *, lease_live=True, workflow=WorkflowState.ENABLED):
    return retry(run, a_chain(chain), ordinal, now=NOW, lease_live=lease_live, workflow=workflow)


def abandoned(run, chain, *, workflow=WorkflowState.ENABLED):
    return abandon(run, a_chain(chain), now=NOW, workflow=workflow)


@pytest.mark.parametrize(
    ("before", "changes", "after", "counts", "completed_at"),
    [
        ("P P", {}, "C C", (2, 0), NOW),
        ("S W P", {}, "S C C", (2, 0), NOW),
        ("S D P", {}, "S U C", (1, 1), NOW),
        ("S R P", {}, "S R C", (1, 0), None),
        ("S R", {}, "S R", (0, 0), None),
        ("S/P S/R F", ROLLED_BACK, "S/C S/R F", (1, 0), None),
        ("S/P S/W F", ROLLED_BACK, "S/C S/C F", (2, 0), NOW),
        ("S/P S/D F", ROLLED_BACK, "S/C S/U F", (1, 1), NOW),
    ],
)
def test_a_cancel_stops_what_has_not_happened(before, changes, after, counts, completed_at):
    step = cancel(a_run(before, **changes), now=NOW, lease_live=True)

    assert letters(step.run) == after
    assert (step.cancelled, step.unknown) == counts
    assert (step.run.cancelled_at, step.run.completed_at) == (NOW, completed_at)
    assert step.history == ()


@pytest.mark.parametrize(
    ("before", "changes", "after", "counts"),
    [
        ("S R P", {}, "S U C", (1, 1)),
        ("C R", CANCELLED, "C U", (0, 1)),
        ("S R", CANCELLED, "S U", (0, 1)),
        ("S/P S/R F", ROLLED_BACK, "S/C S/U F", (1, 1)),
    ],
)
def test_a_cancel_ends_a_lapsed_attempt_as_unknown(before, changes, after, counts):
    step = cancel(a_run(before, **changes), now=NOW, lease_live=False)

    assert letters(step.run) == after
    assert status(step.run) is RunStatus.CANCELLED
    assert (step.cancelled, step.unknown) == counts
    assert step.history == (
        HistoryEntry(
            ordinal=1,
            undo="/" in before,
            number=1,
            outcome=HistoryOutcome.UNKNOWN,
            started_at=NOW - SECOND,
            finished_at=NOW,
            error=WENT_AWAY,
        ),
    )


def test_a_withdrawn_action_keeps_what_its_newest_attempt_said():
    for doubt, after in ((False, Status.CANCELLED), (True, Status.UNKNOWN)):
        waiting = an_action("W", in_doubt=doubt, duration_ms=7, body="rendered")

        action = cancel(a_run(waiting), now=NOW, lease_live=True).run.actions[0]

        assert action == replace(
            waiting, status=after, completed_at=NOW, next_attempt_at=None, body=None
        )


def test_the_first_cancel_sets_the_time():
    assert cancel(a_run("R P", **CANCELLED), now=NOW, lease_live=True).run.cancelled_at == QUEUED


def test_a_cancel_that_changes_nothing_gives_the_same_run():
    run = a_run("S R", **CANCELLED)

    assert cancel(run, now=NOW, lease_live=True).run is run


def test_a_finished_run_is_not_cancelled():
    refusal = cancel(a_run("S F", **FINISHED), now=NOW, lease_live=True)

    assert refusal == Refusal(code="run-finished")


def test_a_worker_cancels_the_rest_of_a_run_and_leaves_a_finished_one():
    finished = a_run("S F", **FINISHED)

    stopped = stop(a_run("S D P"), now=NOW)
    undone = stop(a_run("S/P S/S F", **ROLLED_BACK), now=NOW)

    assert (letters(stopped.run), stopped.run.cancelled_at) == ("S U C", NOW)
    assert (letters(undone.run), undone.run.compensation) == ("S/C S/S F", Compensation.INCOMPLETE)
    assert letters(stop(a_run("R P"), now=NOW).run) == "R C"
    assert stop(finished, now=NOW).run is finished


@pytest.mark.parametrize(
    ("before", "changes", "after", "counts", "compensation"),
    [
        ("P P", {}, "C C", (2, 0), None),
        ("S D W", {}, "S U C", (1, 1), None),
        ("S R P", {}, "S U C", (1, 1), None),
        ("S R", CANCELLED, "S U", (0, 1), None),
        ("S/P S/R F", ROLLED_BACK, "S/C S/U F", (1, 1), Compensation.INCOMPLETE),
        ("S/S S/W F", ROLLED_BACK, "S/S S/C F", (1, 0), Compensation.INCOMPLETE),
    ],
)
def test_a_run_is_force_ended_from_any_state(before, changes, after, counts, compensation):
    run = a_run(before, **changes)

    step = force_end(run, now=NOW)

    assert letters(step.run) == after
    assert (step.cancelled, step.unknown) == counts
    assert status(step.run) is RunStatus.CANCELLED
    assert step.run.completed_at == NOW
    assert step.run.cancelled_at == (run.cancelled_at or NOW)
    assert step.run.compensation is compensation
    entries = [(one.outcome, one.error) for one in step.history]
    assert entries == ([(HistoryOutcome.UNKNOWN, FORCE_ENDED)] if "R" in before else [])


def test_what_was_in_flight_at_a_force_end_says_so():
    action = force_end(a_run("R"), now=NOW).run.actions[0]

    assert (action.error, action.in_doubt, action.completed_at) == (FORCE_ENDED, True, NOW)
    assert (action.started_at, action.repeatable) == (None, False)


def test_a_finished_run_is_not_force_ended():
    assert force_end(a_run("S", **FINISHED), now=NOW) == Refusal(code="run-finished")


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


@pytest.mark.parametrize(
    ("chain", "before", "after", "compensation", "counts"),
    [
        ("Cu C", "S F", "S/P F", Compensation.COMPENSATING, (0, 0)),
        ("Cu C", "S U", "S/P U", Compensation.COMPENSATING, (0, 0)),
        ("Cu C", "S K", "S/P K", Compensation.COMPENSATING, (0, 0)),
        ("Cu C C", "S W P", "S/P C C", Compensation.COMPENSATING, (2, 0)),
        ("Cu C C", "S D P", "S/P U C", Compensation.COMPENSATING, (1, 1)),
        ("Cu H C", "S U H1", "S/P U H1", Compensation.COMPENSATING, (0, 0)),
        ("Cu C C", "S S F", "S/P S/N F", Compensation.COMPENSATING, (0, 0)),
        ("C C", "S F", "S/N F", Compensation.INCOMPLETE, (0, 0)),
    ],
)
def test_an_abandon_undoes_what_succeeded(chain, before, after, compensation, counts):
    finished = not set(before) & set("PWD")

    step = abandoned(a_run(before, **(FINISHED if finished else {})), chain)

    assert (letters(step.run), step.run.compensation) == (after, compensation)
    assert (step.cancelled, step.unknown) == counts
    assert step.run.abandoned_at == NOW
    assert step.run.cancelled_at is None
    ended = compensation is not Compensation.COMPENSATING
    assert step.run.completed_at == (NOW if ended else None)


@pytest.mark.parametrize(
    ("before", "changes", "code"),
    [
        ("S/P R", ROLLED_BACK | CANCELLED, "run-rolled-back"),
        ("S/S F", UNDONE, "run-rolled-back"),
        ("F R", CANCELLED, "run-cancelled"),
        ("F C", FINISHED, "run-cancelled"),
        ("P R", {}, "action-in-flight"),
        ("F F", FINISHED, "nothing-succeeded"),
        ("", FINISHED, "nothing-succeeded"),
        ("S S", FINISHED, "everything-succeeded"),
        ("S F", FINISHED, "workflow-deleted"),
    ],
)
def test_an_abandon_is_refused_with_the_first_code_that_applies(before, changes, code):
    refusal = abandoned(a_run(before, **changes), "Cu Cu", workflow=WorkflowState.DELETED)

    assert refusal == Refusal(code=code)


def test_an_abandon_in_a_workflow_that_is_off_is_refused():
    refusal = abandoned(a_run("S F"), "Cu C", workflow=WorkflowState.DISABLED)

    assert refusal == Refusal(code="workflow-disabled")
