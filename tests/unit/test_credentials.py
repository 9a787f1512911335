"""What a save makes of credentials: kept where they were, sent again where they would move."""

import pytest

from procession.engine.catalogue import ActionType, Catalogue, Parameter
from procession.engine.carrying import SEND_AGAIN, carry
from procession.engine.credentials import shown
from procession.engine.workflow import ActionDefinition, Compensate, Definition

CATALOGUE = Catalogue(
    {
        "Webhook": ActionType(parameters=(Parameter("Url"), Parameter("Secret", credential=True))),
        "Book": ActionType(parameters=(Parameter("Amount"), Parameter("Pin", credential=True))),
    }
)
URL = "https://hooks.example.org"
STORED = {"Url": URL, "Secret": "whsec_1"}


def defined(*actions):
    return Definition(
        name="W", trigger_content_types=("A",), trigger_events=("Created",), actions=actions
    )


def carried(stored, *actions):
    made = carry({"actions": list(actions)}, stored, CATALOGUE)
    return [one["parameters"] for one in made.body["actions"]], [one.name for one in made.faults]


def test_credentials_are_the_declared_ones_and_those_that_are_named_like_one():
    action = ActionDefinition(type="Book", parameters={"Amount": "1", "Pin": "4", "MyToken": "t"})

    told = shown(action, CATALOGUE)

    assert (told.parameters, told.credentials) == ({"Amount": "1"}, ("Pin", "MyToken"))


def test_of_a_type_that_is_not_known_the_names_tell():
    action = ActionDefinition(type="Gone", parameters={"Pin": "4", "apiKey": "k"})

    assert shown(action, CATALOGUE).credentials == ("apiKey",)


@pytest.mark.parametrize(
    ("sent", "saved", "faults"),
    [
        ({"Url": URL, "Secret": " whsec_2 "}, {"Url": URL, "Secret": "whsec_2"}, []),
        ({"Url": URL, "Secret": " "}, {"Url": URL}, []),
        ({"Url": URL}, STORED, []),
        ({"Url": URL, "Secret": None}, STORED, []),
        ({"Url": "https://evil.example"}, {"Url": "https://evil.example"}, ["Secret"]),
        ({"Url": "https://evil.example", "Secret": ""}, {"Url": "https://evil.example"}, []),
        ({}, {}, ["Secret"]),
    ],
)
def test_a_stored_credential_stays_with_the_action_it_was_stored_for(sent, saved, faults):
    stored = defined(ActionDefinition(type="Webhook", parameters=STORED))

    (parameters,), named = carried(stored, {"type": "Webhook", "parameters": sent})

    assert parameters == saved
    assert named == [f"actions[0].parameters.{one}" for one in faults]


def test_another_type_or_another_place_does_not_inherit_a_credential():
    stored = defined(ActionDefinition(type="Webhook", parameters=STORED))
    book = {"type": "Book", "parameters": {"Url": URL}}
    same = {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": ["Secret"]}

    parameters, faults = carried(stored, book, same)

    assert parameters == [{"Url": URL}, {"Url": URL}]
    assert faults == ["actions[0].parameters.Secret", "actions[1].parameters.Secret"]


def test_a_first_save_reads_no_credentials_set():
    sent = {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": ["Secret"]}

    assert carried(None, sent) == ([{"Url": URL}], [])


def test_a_compensation_keeps_its_own_and_what_is_lost_is_told():
    undo = Compensate(type="Webhook", parameters=STORED)
    webhook = ActionDefinition(type="Webhook", parameters={"Url": URL}, compensate=undo)
    sent = {"type": "Webhook", "parameters": {"Url": URL}}
    kept = {"type": "Webhook", "parameters": {"Url": URL}}

    made = carry(
        {"actions": [{**sent, "compensate": kept}, sent]}, defined(webhook, webhook, webhook),
        CATALOGUE,
    )  # fmt: skip

    assert made.body["actions"][0]["compensate"]["parameters"] == STORED
    assert made.faults == ()
    assert made.dropped == (
        "actions[1].compensate.parameters.Secret",
        "actions[2].compensate.parameters.Secret",
    )


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"actions": 1}, {"actions": [1, None, {"type": 2, "parameters": []}]},
     {"actions": [{"parameters": {"Secret": 1}, "compensate": 7, "credentialsSet": [1]}]}],
)  # fmt: skip
def test_a_body_of_another_shape_is_left_as_it_is(body):
    stored = defined(ActionDefinition(type="Webhook", parameters={"Url": URL}))

    assert carry(body, stored, CATALOGUE).body == body


def test_the_reason_says_what_to_do():
    stored = defined(ActionDefinition(type="Webhook", parameters=STORED))

    (fault,) = carry({"actions": [{"type": "Book"}]}, stored, CATALOGUE).faults

    assert fault.reason == SEND_AGAIN
