from importlib.metadata import EntryPoint

import pytest

from procession.actions import Action, Parameter, Succeeded
from procession.actions.load import GROUP, TakenError, built_in, load
from procession.engine.catalogue import Repeatable


class Good(Action):
    """Do good."""

    parameters = (Parameter("Amount", required=True),)
    outputs = ("invoiceId",)

    async def perform(self, context, parameters):
        return Succeeded()


class Careful(Good):
    def repeatable(self, parameters):
        return parameters.get("Amount") == "0"


class Doubtful(Good):
    def repeatable(self, parameters):
        return float(parameters["Amount"]) == 0 or parameters["Amount"]


class Twice(Good):
    repeatable = True


class Unmade(Good):
    def __init__(self):
        raise OSError


class Leaving(Good):
    def __init__(self):
        raise GeneratorExit


class Mistyped(Good):
    parameters = ("Amount",)


class Reserved(Good):
    parameters = (Parameter("runId"),)


class Mute:
    parameters = ()
    outputs = ()
    repeatable = False


def point(name, value="Good"):
    return EntryPoint(name, f"{__name__}:{value}", GROUP)


def test_the_built_in_and_the_installed_are_served():
    registry = load(built_in(), [point("PostInvoice"), point("acme.Post-1")])

    assert registry.types == tuple(sorted([*built_in(), "PostInvoice", "acme.Post-1"]))
    assert type(registry.get("PostInvoice")).__name__ == "Good"


@pytest.mark.parametrize("names", [["Webhook"], ["Post", "Post"]])
def test_a_name_that_is_taken_stops_the_start(names):
    with pytest.raises(TakenError, match=names[0]):
        load(built_in(), [point(name) for name in names])


@pytest.mark.parametrize(
    "value", ["Nobody", "Unmade", "Leaving", "Mistyped", "Reserved", "Mute", "point"]
)
def test_a_package_that_fails_to_load_is_not_served_and_the_others_are(value, caplog):
    registry = load(built_in(), [point("Bad", value), point("Good")])

    assert registry.types == tuple(sorted([*built_in(), "Good"]))
    assert "The action Bad is not served" in caplog.text


@pytest.mark.parametrize("name", ["1st", "a b", "é", "a" * 65])
def test_a_name_that_is_no_type_is_not_served(name):
    assert load({}, [point(name)]).types == ()


def test_the_catalogue_says_what_is_known_of_each():
    catalogue = load({}, [point("A"), point("B", "Careful"), point("C", "Twice")]).catalogue()

    known = catalogue.types["A"]
    assert (known.description, known.outputs) == ("Do good.", ("invoiceId",))
    assert known.parameters == (Parameter("Amount", required=True),)
    assert [catalogue.types[name].repeatable for name in "ABC"] == [
        Repeatable.NEVER,
        Repeatable.DEPENDS,
        Repeatable.ALWAYS,
    ]


def test_a_promise_that_depends_is_none_without_its_parameters():
    registry = load(built_in(), [point("A"), point("B", "Careful"), point("C", "Twice")])

    assert registry.repeatable("Webhook")
    assert registry.repeatable("C")
    assert not registry.repeatable("A")
    assert not registry.repeatable("B")
    assert registry.repeatable("B", {"Amount": "0"})
    assert not registry.repeatable("B", {"Amount": "1"})
    assert not registry.repeatable("Nobody")


@pytest.mark.parametrize("parameters", [{}, {"Amount": "{{data.Amount}}"}, {"Amount": "7"}])
def test_a_promise_that_cannot_be_had_or_is_no_promise_is_none(parameters):
    registry = load(built_in(), [point("A", "Doubtful")])

    assert registry.repeatable("A", {"Amount": "0"})
    assert not registry.repeatable("A", parameters)


def test_an_action_that_performs_nothing_cannot_be_made():
    class Idle(Action):
        pass

    with pytest.raises(TypeError, match="perform"):
        Idle()
