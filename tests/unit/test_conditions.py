from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.engine.access import Actor, ActorKind
from procession.engine.conditions import Comparison, first_failing, holds, parse_comparison
from procession.engine.content_type import ContentType, Field, Sensitivity
from procession.engine.entry import Entry, Stub
from procession.engine.scope import Names

AT = datetime(2026, 11, 30, 8, tzinfo=UTC)
ANN = Actor(kind=ActorKind.USER, id="u-1", name="Ann")
ENTRY = Entry(
    id="a-17",
    content_type="Article",
    status="Draft",
    sensitivity=Sensitivity.HIDDEN,
    data={
        "Language": "en",
        "Rate": 1.5,
        "Flag": True,
        "Empty": None,
        "List": ["en"],
        "Object": {},
        "Status": "data",
    },
    created_at=AT,
    updated_at=AT,
    created_by=ANN,
    updated_by=ANN,
)


@pytest.mark.parametrize(
    ("conditions", "failing"),
    [
        ({}, None),
        ({"Language": "en"}, None),
        ({"Language": "EN"}, "Language"),
        ({"language": "en"}, "language"),
        ({"Rate": "1.5", "Flag": "true", "Empty": ""}, None),
        ({"Rate": "1.50"}, "Rate"),
        ({"Flag": "True"}, "Flag"),
        ({"Absent": ""}, "Absent"),
        ({"List": '["en"]'}, "List"),
        ({"Object": "{}"}, "Object"),
        ({"Status": "Draft"}, None),
        ({"Status": "data"}, "Status"),
        ({"status": "Draft"}, "status"),
        ({"Language": "en", "B": "1", "A": "1"}, "B"),
    ],
)
def test_the_first_condition_that_is_not_met_is_named(conditions, failing):
    assert first_failing(conditions, ENTRY) == failing


def test_a_deleted_entry_meets_no_condition_but_none():
    assert first_failing({"Status": "Draft"}, None) == "Status"
    assert first_failing({}, None) is None


@pytest.mark.parametrize(
    ("text", "comparison"),
    [
        ("{{data.X}} == en", Comparison("data.X", equal=True, right="en")),
        ("{{ status }}!='Draft'", Comparison("status", equal=False, right="Draft")),
        ('{{data.X}} == "a == b"', Comparison("data.X", equal=True, right="a == b")),
        ("{{data.X}} == ", Comparison("data.X", equal=True, right="")),
        ("{{data.X}} == '", Comparison("data.X", equal=True, right="'")),
        ("{{data.X}} == \"a'", Comparison("data.X", equal=True, right="\"a'")),
        ("{{data.X}} = en", None),
        ("data.X == en", None),
        ("{{data.X}} > 1", None),
        ("{{a}}{{b}} == 1", None),
        ("true", None),
        ("", None),
    ],
)
def test_a_comparison_is_found_before_any_value_is_read(text, comparison):
    assert parse_comparison(text) == comparison


NAMES = Names(
    entry=Entry(
        id="a-17",
        content_type="Article",
        status="Draft",
        data={"Title": "A != b", "Secret": "x", "Empty": None},
        created_at=AT,
        updated_at=AT,
        created_by=ANN,
        updated_by=ANN,
    ),
    content_type=ContentType(
        {"Title": Field(), "Empty": Field(), "Secret": Field(sensitivity=Sensitivity.HIDDEN)}
    ),
)


@pytest.mark.parametrize(
    ("text", "so"),
    [
        ("{{status}} == draft", True),
        ("{{status}} != DRAFT", False),
        ("{{contentType}} == 'article'", True),
        ("{{data.Title}} == a != B", True),
        ("{{data.Empty}} == ''", True),
        ("{{data.Nope}} == ''", True),
        ("{{data.Secret}} == x", False),
        ("{{createdBy.name}} == ''", True),
        ("{{id}} == a-17", False),
    ],
)
def test_a_comparison_holds_or_not(text, so):
    assert holds(parse_comparison(text), NAMES) is so


def test_a_comparison_says_whether_it_needs_the_content():
    assert parse_comparison("{{status}} == x").reads_content()
    assert parse_comparison("{{data.X}} == x").reads_content()
    assert not parse_comparison("{{contentType}} == x").reads_content()


def test_of_a_deleted_entry_the_content_type_is_left():
    names = Names(entry=Stub(id="a-17", content_type="Article"))

    assert holds(parse_comparison("{{contentType}} == Article"), names)


@given(st.text())
def test_no_text_is_too_strange_to_compare(text):
    parse_comparison(text)
    comparison = parse_comparison("{{data.Title}} == " + text)
    assert holds(comparison, NAMES) in (True, False)
