import pytest
from fix_engine import NOW, QUEUED, SECOND, a_run, an_action, letters
from msgspec.structs import replace

from procession.engine.run import (
    Compensation,
    HistoryEntry,
    HistoryOutcome,
    Refusal,
    RunStatus,
    Status,
    cancel,
    force_end,
    status,
    stop,
)

WENT_AWAY = "The worker went away before it recorded an outcome."
FORCE_ENDED = "The run was force-ended before the action's outcome was recorded."

CANCELLED = {"cancelled_at": QUEUED}
ROLLED_BACK = {"compensation": Compensation.COMPENSATING}
FINISHED = {"completed_at": QUEUED}


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
