from decimal import Decimal
from enum import Enum
from http import HTTPStatus

import pytest
from fix_engine import NOW, a_chain, a_run

from procession.engine.outcome import Succeeded
from procession.engine.run import (
    Compensation,
    Status,
    settle,
)


class Wild(str):
    """A text that its author has made his own, as parsers and templates do."""

    __slots__ = ()

    def _raise(self, *_):
        raise RuntimeError

    __len__ = __str__ = __repr__ = isascii = _raise


class Colour(int, Enum):
    RED = 7


class Amount(float):
    def __repr__(self):
        return "Amount"


class Proxy:
    """It says that it is a text."""

    __class__ = str


ROLLED_BACK = {"compensation": Compensation.COMPENSATING}


def settled(run, chain, outcome, **known):
    known = {"now": NOW, "jitter": 0.0, "duration_ms": 12, "body": None} | known
    return settle(run, a_chain(chain), outcome, **known)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("plain", "plain"),
        ("", ""),
        (12, "12"),
        (1.5, "1.5"),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        ("a\0b \ud800", "a\\u0000b \\ud800"),  # as Postgres can keep it
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, None),
        ("\0" * 400, None),
        (10**1999, "1" + "0" * 1999),
        (10**2000, None),
        pytest.param(-(10**5000), None, id="a number that Python does not spell"),
        (float("nan"), None),
        ([1], None),
        ({"a": 1}, None),
        (b"bytes", None),
        pytest.param(Wild("i-7"), "i-7", id="a text of another class"),
        pytest.param(Wild("a\0b"), "a\\u0000b", id="one with a NUL"),
        (HTTPStatus.OK, "200"),
        (Colour.RED, "7"),
        (Amount(1.5), "1.5"),
        (Decimal("1.5"), None),
        pytest.param(Proxy(), None, id="what is no text"),
    ],
)
def test_a_captured_scalar_is_kept_as_text(value, kept):
    step = settled(a_run("R"), "C", Succeeded({"id": value, "secret": "s"}))

    action = step.run.actions[0]
    assert step.run.outputs == ({} if kept is None else {0: {"id": kept}})
    assert all(type(one) is str for one in step.run.outputs.get(0, {}).values())
    assert action.status is Status.SUCCEEDED
    assert (action.error is None) == (kept is not None)
    assert "id" in (action.error or "id")


def test_outputs_that_are_not_captured_leave_nothing():
    step = settled(a_run("R"), "C", Succeeded({"secret": "s"}))

    assert (step.run.outputs, step.run.actions[0].error) == ({}, None)


def test_outputs_of_other_actions_stay_and_an_undo_adds_none():
    run = a_run("S R", outputs={0: {"id": "a"}})
    undone = a_run("S/R F", outputs={0: {"id": "a"}}, **ROLLED_BACK)

    assert settled(run, "C C", Succeeded({"id": 2})).run.outputs == {
        0: {"id": "a"},
        1: {"id": "2"},
    }
    assert settled(undone, "Cu H", Succeeded({"id": 2})).run.outputs == {0: {"id": "a"}}


def test_an_error_that_names_what_was_not_kept_stays_short():
    step = settled(a_run("R"), "C", Succeeded({"id": [], "note": {}}, error="e" * 470))

    assert len(step.run.actions[0].error) == 500
    assert step.history[0].error == step.run.actions[0].error
