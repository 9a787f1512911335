import pytest
from fix_engine import NOW, QUEUED, a_chain, a_run, letters

from procession.engine.run import (
    Compensation,
    Refusal,
    WorkflowState,
    abandon,
)

CANCELLED = {"cancelled_at": QUEUED}
ROLLED_BACK = {"compensation": Compensation.COMPENSATING}
UNDONE = {"compensation": Compensation.COMPENSATED, "completed_at": QUEUED}
FINISHED = {"completed_at": QUEUED}


def abandoned(run, chain, *, workflow=WorkflowState.ENABLED):
    return abandon(run, a_chain(chain), now=NOW, workflow=workflow)


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
