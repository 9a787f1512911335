import msgspec
import pytest

from procession.engine.content_type import (
    ContentType,
    Field,
    Kind,
    Lifecycle,
    Sensitivity,
    Transition,
    parse_content_type,
)
from procession.engine.errors import ValidationFailedError

ARTICLE = {
    "fields": {"Title": {}, "Price": {"type": "money", "sensitivity": "Sensitive"}},
    "lifecycle": {
        "statuses": ["New", "Published"],
        "transitions": {"Approve": {"from": ["New", "New"], "to": "Published"}},
    },
    "color": "ignored",
}


def names_of(body):
    with pytest.raises(ValidationFailedError) as caught:
        parse_content_type(body)
    return [one.name for one in caught.value.faults]


def test_a_content_type_is_read_with_its_defaults():
    assert parse_content_type(ARTICLE) == ContentType(
        {"Title": Field(), "Price": Field(Kind.MONEY, Sensitivity.SENSITIVE)},
        Lifecycle(("New", "Published"), {"Approve": Transition(("New",), "Published")}),
    )


@pytest.mark.parametrize("body", [{}, {"fields": None, "lifecycle": None}, {"lifecycle": {}}])
def test_without_a_lifecycle_there_are_three_statuses_and_no_transitions(body):
    assert parse_content_type(body).lifecycle == Lifecycle(("Draft", "Published", "Archived"), {})


def test_it_is_stored_as_it_is_sent():
    stored = msgspec.json.encode(parse_content_type(ARTICLE))

    assert msgspec.json.decode(stored, type=ContentType) == parse_content_type(ARTICLE)
    assert b'"from":["New"]' in stored


def test_all_faults_are_named_together():
    body = {
        "fields": {
            "1x": {},
            "Title": {"type": "Text"},
            "Rate": {"type": 3, "sensitivity": "public"},
            "Gone": [],
        },
        "lifecycle": {
            "statuses": ["New", " ", "New", "x" * 101],
            "transitions": {
                "Go": {"from": ["New", "Old"], "to": "Away"},
                "GO": {"from": [], "to": None},
                "a-b": 1,
            },
        },
    }

    assert names_of(body) == [
        "fields.1x",
        "fields.Title.type",
        "fields.Rate.type",
        "fields.Rate.sensitivity",
        "fields.Gone",
        "lifecycle.statuses[1]",
        "lifecycle.statuses[2]",
        "lifecycle.statuses[3]",
        "lifecycle.transitions.Go.from[1]",
        "lifecycle.transitions.Go.to",
        "lifecycle.transitions.GO",
        "lifecycle.transitions.GO.from",
        "lifecycle.transitions.GO.to",
        "lifecycle.transitions.a-b",
        "lifecycle.transitions.a-b",
        "lifecycle.transitions.a-b.from",
        "lifecycle.transitions.a-b.to",
    ]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ([], "body"),
        (None, "body"),
        ({"fields": []}, "fields"),
        ({"lifecycle": "x"}, "lifecycle"),
        ({"lifecycle": {"statuses": []}}, "lifecycle.statuses"),
        ({"lifecycle": {"statuses": ["A", 1]}}, "lifecycle.statuses[1]"),
        ({"lifecycle": {"transitions": []}}, "lifecycle.transitions"),
    ],
)
def test_what_has_the_wrong_shape_is_refused(body, name):
    assert names_of(body) == [name]


def test_a_transition_is_found_in_any_case_under_its_declared_name():
    found = parse_content_type(ARTICLE).transition("aPPROVE")

    assert found == ("Approve", Transition(("New",), "Published"))
    assert parse_content_type(ARTICLE).transition("Reject") is None


def lifecycle_of(statuses, transitions):
    ways = {f"T{one}": {"from": ["S0"], "to": "S1"} for one in range(transitions)}
    names = [f"S{one}" for one in range(statuses)]
    return {"lifecycle": {"statuses": names, "transitions": ways}}


@pytest.mark.parametrize(
    ("most", "more", "name"),
    [
        ({"fields": {f"F{one}": {} for one in range(1_000)}},
         {"fields": {f"F{one}": {} for one in range(1_001)}}, "fields"),
        (lifecycle_of(200, 1), lifecycle_of(201, 0), "lifecycle.statuses"),
        (lifecycle_of(2, 1_000), lifecycle_of(2, 1_001), "lifecycle.transitions"),
    ],
)  # fmt: skip
def test_it_declares_no_more_than_may_be_read_at_every_write(most, more, name):
    parse_content_type(most)

    assert names_of(more) == [name]


def test_what_is_wrong_many_times_is_told_shortly_and_a_hundred_times():
    statuses = [f"{one:03}{'x' * 97}" for one in range(200)]
    ways = {f"T{one}": {"from": [*statuses[:2], "no"], "to": "no"} for one in range(1_000)}

    with pytest.raises(ValidationFailedError) as caught:
        parse_content_type({"lifecycle": {"statuses": statuses, "transitions": ways}})

    faults = caught.value.faults
    assert 100 <= len(faults) <= 110
    assert {one.reason[-12:] for one in faults} == {"and 180 more"}
    assert max(len(one.reason) for one in faults) < 2_200
