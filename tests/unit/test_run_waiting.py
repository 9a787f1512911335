import pytest
from fix_engine import LATER, NOW, SECOND, a_chain, a_run

from procession.engine.run import Compensation, LiveWorker, Reason, Waiting, due, running, waiting

SERVING = LiveWorker(
    action_types=frozenset({"Type0", "Type1", "Undo0"}), document_format=1, claims=True
)
PAUSED = LiveWorker(action_types=SERVING.action_types, document_format=1, claims=False)
OTHER = LiveWorker(action_types=frozenset({"Other"}), document_format=1, claims=True)
OLD = LiveWorker(action_types=SERVING.action_types, document_format=0, claims=True)


def reason(letters, *workers, chain="C C", **known):
    changes = {"compensation": Compensation.COMPENSATING} if "/" in letters else {}
    run = a_run(letters, **changes)
    in_flight, _ = running(run) or (None, None)
    found = due(run, a_chain(chain), NOW)
    return waiting(found, NOW, workers=workers, in_flight=in_flight, **known)


def test_a_finished_run_waits_for_nothing():
    assert reason("S F") is None


def test_what_is_in_flight_is_not_named_where_it_cannot_be_read():
    found = waiting(None, NOW, workers=(), lease_until=NOW)

    assert found == Waiting(reason=Reason.LEASE_HELD, ordinal=None, until=NOW)


@pytest.mark.parametrize(("letters", "ordinal"), [("R P", 0), ("P R", 1), ("S/R S", 0)])
def test_a_lease_is_held_before_anything_else(letters, ordinal):
    assert reason(letters, lease_until=NOW - SECOND) == Waiting(
        reason=Reason.LEASE_HELD, ordinal=ordinal, until=NOW - SECOND
    )


@pytest.mark.parametrize(
    ("chain", "letters", "ordinal"),
    [("C C", "W S", 0), ("H C", "W P", 0), ("C C", "S W", 1), ("Cu C", "S/W F", 0)],
)
def test_a_back_off_is_shown_before_a_missing_worker(chain, letters, ordinal):
    assert reason(letters, chain=chain) == Waiting(
        reason=Reason.RETRY_AT, ordinal=ordinal, until=LATER
    )


@pytest.mark.parametrize("workers", [(), (OTHER,), (OLD,), (OTHER, OLD)])
def test_no_worker_serves_the_type(workers):
    assert reason("S P", *workers) == Waiting(
        reason=Reason.NO_WORKER, ordinal=1, action_type="Type1"
    )


def test_the_type_of_an_undo_is_that_of_its_compensation():
    found = reason("S/P F", OTHER, chain="Cu C", no_worker_since=NOW - 60 * SECOND)

    assert found == Waiting(
        reason=Reason.NO_WORKER, ordinal=0, action_type="Undo0", until=NOW + 540 * SECOND
    )


def test_every_worker_is_paused():
    assert reason("P P", PAUSED, PAUSED) == Waiting(reason=Reason.PAUSED, ordinal=0)


@pytest.mark.parametrize("workers", [(SERVING,), (SERVING, PAUSED), (PAUSED, OTHER)])
def test_a_run_waits_for_a_free_slot(workers):
    assert reason("W P", *workers) == Waiting(reason=Reason.DUE, ordinal=1)


def test_a_newer_document_waits_for_a_newer_worker():
    assert reason("P P", SERVING, document_format=2).reason is Reason.NO_WORKER
