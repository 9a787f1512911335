"""What a save makes of credentials: kept where they were, sent again where they would move."""

import json

import pytest

from procession.engine.carrying import SEND_AGAIN, carry
from procession.engine.catalogue import ActionType, Catalogue, Parameter
from procession.engine.credentials import declared, mapped, places, shown
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


CONDITIONS = Catalogue(
    {
        **CATALOGUE.types,
        "Conditional": ActionType(
            parameters=(Parameter("Condition"), Parameter("ThenActions"), Parameter("ElseActions"))
        ),
    }
)
HOOK = {"type": "Webhook", "parameters": {"Url": URL, "Secret": "whsec_1"}}
PLAIN = {"type": "Book", "parameters": {"Amount": "1"}}
IF = {"Condition": "{{status}} == Draft"}


def nested(*children):
    return json.dumps(children, separators=(",", ":"))


def conditional(**branches):
    return ActionDefinition(type="Conditional", parameters={**IF, **branches})


def resent(stored, **changes):
    """What comes of sending back what was told of it, with these changes."""
    told = shown(stored, CONDITIONS)
    sent = {"type": "Conditional", "parameters": {**told.parameters, **changes}}
    made = carry({"actions": [sent]}, defined(stored), CONDITIONS)
    return made.body["actions"][0]["parameters"], made


def test_credentials_of_children_are_named_and_not_told():
    inner = {"type": "Conditional", "parameters": {**IF, "ThenActions": nested(HOOK)}}

    told = shown(conditional(ThenActions=nested(HOOK, PLAIN, inner)), CONDITIONS)

    first, second, third = json.loads(told.parameters["ThenActions"])
    assert "whsec_1" not in str(told)
    assert first == {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": ["Secret"]}
    assert second == {**PLAIN, "credentialsSet": []}
    (deep,) = json.loads(third["parameters"]["ThenActions"])
    assert deep["credentialsSet"] == ["Secret"]


def test_a_branch_without_credentials_is_told_as_it_was_sent():
    text = '[ {"type": "Book", "parameters": {"Amount": "1"} } ]'

    assert shown(conditional(ThenActions=text), CONDITIONS).parameters["ThenActions"] == text


@pytest.mark.parametrize("text", ["[", "{}", '[{"parameters": {"Pin": 4}}]'])
def test_a_branch_that_cannot_be_parsed_is_left_out_whole(text):
    told = shown(conditional(ThenActions=text, ElseActions="[]"), CONDITIONS)

    assert told.parameters == {**IF, "ElseActions": "[]"}
    assert told.unreadable == ("ThenActions",)


def test_an_unchanged_conditional_keeps_the_credentials_of_its_children():
    stored = conditional(ThenActions=nested(HOOK), ElseActions=nested(HOOK, PLAIN))

    parameters, made = resent(stored)

    assert parameters == stored.parameters
    assert (made.faults, made.dropped) == ((), ())
    assert "actions[0].parameters.ElseActions[0].parameters.Secret" in made.kept


def test_a_changed_conditional_must_send_them_again():
    stored = conditional(ThenActions=nested(HOOK))

    _, made = resent(stored, Condition="{{status}} == Published")

    assert [one.name for one in made.faults] == [
        "actions[0].parameters.ThenActions[0].parameters.Secret"
    ]


def test_a_branch_that_differs_counts_as_it_was_sent():
    stored = conditional(ThenActions=nested(HOOK))
    other = {"type": "Webhook", "parameters": {"Url": URL, "Secret": " whsec_2 "}}

    sent, replaced = resent(stored, ThenActions=nested(other))
    _, emptied = resent(stored, ThenActions=nested(PLAIN))

    assert json.loads(sent["ThenActions"])[0]["parameters"]["Secret"] == "whsec_2"
    assert (replaced.faults, replaced.dropped) == ((), ())
    assert emptied.faults == ()
    assert emptied.dropped == ("actions[0].parameters.ThenActions[0].parameters.Secret",)


def test_every_credential_has_a_place_of_its_own():
    inner = {"type": "Conditional", "parameters": {**IF, "ElseActions": nested(HOOK)}}
    undo = Compensate(type="Webhook", parameters=STORED)
    workflow = defined(
        ActionDefinition(type="Webhook", parameters=STORED, compensate=undo),
        conditional(ThenActions=nested(PLAIN, inner)),
    )

    sealed = mapped(workflow, declared(CONDITIONS), lambda place, value: f"{place}={value}")

    assert list(places(workflow, declared(CONDITIONS))) == [
        "actions[0].compensate.parameters.Secret",
        "actions[0].parameters.Secret",
        "actions[1].parameters.ThenActions[1].parameters.ElseActions[0].parameters.Secret",
    ]
    assert sealed.actions[0].parameters["Secret"] == "actions[0].parameters.Secret=whsec_1"
    assert '"Secret":"whsec_1"' not in str(sealed)
