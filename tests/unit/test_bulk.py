import pytest
from fix_engine import NOW, QUEUED, a_chain, a_run, letters

from procession.engine.bulk import Moment, Order, Verb, decide
from procession.engine.run import (
    Compensation,
    Refusal,
    WorkflowState,
    abandon,
    cancel,
    is_finished,
    retry,
)

AT = Moment(now=NOW, lease_live=True, workflow=WorkflowState.ENABLED)
FINISHED = {"completed_at": QUEUED}


def decided(verb, run, definition, *, unknown=False, workflow=WorkflowState.ENABLED):
    at = Moment(now=NOW, lease_live=True, workflow=workflow)
    return decide(Order(verb=verb, unknown=unknown), run, definition, at)


@pytest.mark.parametrize("before", ["P P", "S R", "S F", "F H0", "F F", "U U", "C C"])
def test_cancel_and_abandon_are_decided_as_for_one(before):
    run, chain = a_run(before), a_chain("H C")
    one = {"now": NOW, "workflow": WorkflowState.ENABLED}

    assert decided(Verb.CANCEL, run, chain) == cancel(run, now=NOW, lease_live=True)
    assert decided(Verb.ABANDON, run, chain) == abandon(run, chain, **one)


@pytest.mark.parametrize(
    ("policies", "before", "unknown", "after", "resumed"),
    [
        ("H C", "F H0", False, "P P", 1),
        ("C C C", "F S F", False, "P S P", 0),
        ("C H C", "F F H1", False, "P P P", 1),
        ("C C", "W P", False, "P P", 0),
        ("C C", "F U", False, "P U", 0),
        ("C C", "F U", True, "P P", 0),
        ("H C", "U H0", True, "P P", 1),
        ("C C", "F K", False, "P K", 0),
        ("C C", "F R", False, "P R", 0),
    ],
)
def test_a_retry_takes_every_action_that_has_failed(policies, before, unknown, after, resumed):
    run = a_run(before)

    step = decided(Verb.RETRY, run, a_chain(policies), unknown=unknown)

    assert letters(step.run) == after
    assert step.resumed == resumed
    assert not is_finished(step.run)
    assert step.history == ()


def test_a_retry_of_one_action_is_what_it_would_be_alone():
    run, chain = a_run("S F H1", **FINISHED), a_chain("C H C")

    alone = retry(run, chain, 1, now=NOW, lease_live=True, workflow=WorkflowState.ENABLED)

    assert decided(Verb.RETRY, run, chain) == alone


@pytest.mark.parametrize(
    ("before", "changes", "workflow", "code"),
    [
        ("S S", FINISHED, WorkflowState.ENABLED, "nothing-to-retry"),
        ("U H0", FINISHED, WorkflowState.ENABLED, "nothing-to-retry"),
        ("P P", {}, WorkflowState.ENABLED, "nothing-to-retry"),
        ("R P", {}, WorkflowState.ENABLED, "action-in-flight"),
        ("S C", {"cancelled_at": QUEUED}, WorkflowState.ENABLED, "run-cancelled"),
        ("F C", {"cancelled_at": QUEUED}, WorkflowState.ENABLED, "run-cancelled"),
        (
            "S/S F",
            {"compensation": Compensation.COMPENSATED},
            WorkflowState.ENABLED,
            "run-rolled-back",
        ),
        (
            "S/S U",
            {"compensation": Compensation.COMPENSATED},
            WorkflowState.ENABLED,
            "run-rolled-back",
        ),
        ("F P", {}, WorkflowState.DISABLED, "workflow-disabled"),
        ("F P", {}, WorkflowState.DELETED, "workflow-deleted"),
    ],
)
def test_a_retry_is_refused_as_it_would_be_alone(before, changes, workflow, code):
    run = a_run(before, **changes)

    assert decided(Verb.RETRY, run, a_chain("H C"), workflow=workflow) == Refusal(code=code)


@pytest.mark.parametrize(
    ("verb", "capability", "statuses"),
    [
        (Verb.CANCEL, "manage_workflows", ["Pending", "Running"]),
        (Verb.RETRY, "retry_workflow_actions", ["Failed", "PartiallyFailed"]),
        (Verb.ABANDON, "retry_workflow_actions", ["Failed", "PartiallyFailed"]),
    ],
)
def test_a_verb_takes_what_it_takes_for_one(verb, capability, statuses):
    assert verb.capability == capability
    assert list(verb.meant_for) == statuses
