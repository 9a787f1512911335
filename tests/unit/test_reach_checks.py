"""What a save warns of: names that lead nowhere, and branches that take too long."""

import json
from dataclasses import replace

import pytest

from procession.actions.load import built_in
from procession.actions.registry import Registry
from procession.engine.content_type import ContentType, Field, Sensitivity
from procession.engine.errors import Concern
from procession.engine.findings import Surroundings
from procession.engine.validation import check_definition

AROUND = Surroundings(
    Registry(built_in()).catalogue(),
    {"Article": ContentType(), "Chore": ContentType()},
    requests=frozenset({"ledger"}),
    longest={"Webhook": 74, "Request": 208},
    most_seconds=240,
)
READING = replace(
    AROUND,
    content_types={
        "Article": ContentType({"Lang": Field(), "Pin": Field(sensitivity=Sensitivity.HIDDEN)})
    },
)
HOOK = {"type": "Webhook", "parameters": {"Url": "https://example.com"}}


def warned(action, around=AROUND, **more):
    body = {
        "name": "Reach",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": [action | more],
    }
    checked = check_definition(body, around)
    assert checked.faults == ()
    return list(checked.concerns)


def step(type_, **parameters):
    return {"type": type_, "parameters": parameters}


def conditional(then, otherwise=()):
    return step(
        "Conditional",
        Condition="{{status}} == Draft",
        ThenActions=json.dumps(then),
        ElseActions=json.dumps(otherwise),
    )


@pytest.mark.parametrize(
    ("action", "name", "message"),
    [
        (step("CreateTask", Title="x"), "ContentType", "there is no content type Task"),
        (
            step("CreateTask", Title="x", ContentType="Nothing"),
            "ContentType",
            "there is no content type Nothing",
        ),
        (
            step("UpdateField", Field="x", Value="y", TargetContentType="Nothing"),
            "TargetContentType",
            "there is no content type Nothing",
        ),
        (step("Request", Request="books"), "Request", "there is no request books"),
        (step("Request", Request="{{id}}"), "Request", "there is no request {{id}}"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_wherever_it_stands(action, name, message):
    place = f"parameters.{name}"

    assert Concern(f"actions[0].{place}", message) in warned(action)
    assert Concern(f"actions[0].compensate.{place}", message) in warned(HOOK, compensate=action)
    inside = conditional([HOOK, conditional([], [action])])
    branches = "parameters.ThenActions[1].parameters.ElseActions[0]"
    assert Concern(f"actions[0].{branches}.{place}", message) in warned(inside)


@pytest.mark.parametrize(
    "action",
    [
        step("CreateTask", Title="x", ContentType="Chore"),
        step("CreateTask", Title="x", ContentType="{{data.Kind}}"),
        step("UpdateField", Field="x", Value="y"),
        step("UpdateField", Field="x", Value="y", TargetContentType="Chore"),
        step("Request", Request="ledger"),
    ],
)
def test_what_is_there_or_cannot_be_told_is_not(action):
    told = [one.message for one in warned(action)]

    assert [one for one in told if "there is no" in one] == []


@pytest.mark.parametrize(
    ("then", "otherwise", "branch", "seconds"),
    [
        ([HOOK] * 4, [], "ThenActions", 296),
        ([HOOK], [step("Request", Request="ledger"), HOOK], "ElseActions", 282),
        ([HOOK, HOOK, conditional([HOOK], [HOOK, HOOK])], [], "ThenActions", 296),
    ],
)
def test_children_that_may_take_too_long_together_are_told(then, otherwise, branch, seconds):
    message = f"may take {seconds} s in all, of 240 s that an attempt has for its calls"

    assert warned(conditional(then, otherwise)) == [
        Concern(f"actions[0].parameters.{branch}", message)
    ]


@pytest.mark.parametrize("then", [[], [HOOK] * 3, [step("UpdateField", Field="x", Value="y")] * 20])
def test_children_that_have_the_time_are_not(then):
    assert warned(conditional(then)) == []


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("{{data.Lang}} = en", "is no comparison, such as {{data.X}} == text, and counts as false"),
        (
            "{{data.Langue}} == en",
            "{{data.Langue}} is empty for Article, which does not declare the field",
        ),
        ("{{data.Pin}} != 1", "{{data.Pin}} is empty for Article, where the field is Hidden"),
        (
            "{{id}} == a-1",
            "{{id}} is empty here: a condition reads {{data.X}}, {{status}} and {{contentType}}",
        ),
    ],
)
def test_a_condition_that_no_entry_changes_is_told_wherever_it_stands(condition, message):
    action = conditional([])
    action["parameters"]["Condition"] = condition
    place = "parameters.Condition"

    assert warned(action, READING) == [Concern(f"actions[0].{place}", message)]
    inside = f"actions[0].parameters.ThenActions[0].{place}"
    assert warned(conditional([action]), READING) == [Concern(inside, message)]


@pytest.mark.parametrize(
    "condition", ["{{data.Lang}} == en", "{{status}} != x", '{{contentType}} == "Article"']
)
def test_one_that_an_entry_decides_is_not(condition):
    action = conditional([])
    action["parameters"]["Condition"] = condition

    assert warned(action, READING) == []
