from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from procession.engine.access import Actor, ActorKind
from procession.engine.content_type import ContentType, Field, Kind, Sensitivity
from procession.engine.entry import (
    Entry,
    check_values,
    events_of,
    fits,
    is_changed,
    may_read,
    public_data,
    readable_data,
)
from procession.engine.values import amount, instant, same, text_of

AT = datetime(2026, 11, 30, 8, tzinfo=UTC)
ANN = Actor(kind=ActorKind.USER, id="u-1", name="Ann")
DRAFT = Entry(
    id="a-17",
    content_type="Article",
    status="Draft",
    data={"Title": "Hello"},
    created_at=AT,
    updated_at=AT,
    created_by=ANN,
    updated_by=ANN,
)
PUBLISHED = replace(DRAFT, status="Published")
ARTICLE = ContentType(
    {
        "Title": Field(),
        "Price": Field(Kind.MONEY, Sensitivity.SENSITIVE),
        "Note": Field(Kind.TEXT, Sensitivity.HIDDEN),
    }
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("before", "after", "transition", "events"),
    [
        (None, DRAFT, None, ("Created",)),
        (None, PUBLISHED, None, ("Created", "Published")),
        (DRAFT, replace(DRAFT, data={"Title": "Ho"}), None, ("Updated",)),
        (DRAFT, replace(PUBLISHED, data={}), None, ("Updated", "Published")),
        (PUBLISHED, DRAFT, None, ("Unpublished",)),
        (PUBLISHED, replace(PUBLISHED, status="Archived"), None, ("Unpublished",)),
        (DRAFT, PUBLISHED, "Approve", ("Published", "transition:Approve")),
        (DRAFT, replace(DRAFT, status="Archived"), "Shelve", ("transition:Shelve",)),
        (DRAFT, DRAFT, "Ping", ("transition:Ping",)),
        (DRAFT, replace(DRAFT, status="Archived"), None, ()),
        (DRAFT, replace(DRAFT, sensitivity=Sensitivity.HIDDEN), None, ()),
        (DRAFT, DRAFT, None, ()),
        (PUBLISHED, None, None, ("Deleted",)),
        (None, None, None, ()),
    ],
)
def test_a_write_fires_its_events_in_order(before, after, transition, events):
    assert events_of(before, after, transition) == events


@pytest.mark.parametrize(
    ("after", "changed"),
    [
        (DRAFT, False),
        (replace(DRAFT, data=dict(DRAFT.data), updated_at=AT.replace(year=2027)), False),
        (PUBLISHED, True),
        (replace(DRAFT, sensitivity=Sensitivity.SENSITIVE), True),
        (replace(DRAFT, data={"Title": None}), True),
    ],
)
def test_a_change_of_status_data_or_sensitivity_raises_the_version(after, changed):
    assert is_changed(DRAFT, after) is changed


@pytest.mark.parametrize(
    ("left", "right", "one"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, False, False),
        (None, None, True),
        ("1", 1, False),
        ({"a": 1, "b": [1, {"c": 2}]}, {"b": [1.0, {"c": 2}], "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([], {}, False),
        ([[]], [None], False),
        ([True], [1], False),
        (2**53 + 1, float(2**53), False),
    ],
)
def test_json_values_are_compared_as_json(left, right, one):
    assert same(left, right) is one
    assert same(right, left) is one


@given(JSON)
def test_a_value_is_itself(value):
    assert same(value, value)


def test_depth_is_no_limit_to_comparing():
    left, right = [], []
    for _ in range(100_000):
        left, right = [left], [right]

    assert same(left, right)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Kind.TEXT, ["", "x"], [1, True, [], {}]),
        (Kind.NUMBER, [0, -1.5], ["1", True, []]),
        (Kind.BOOLEAN, [True, False], [0, "true"]),
        (
            Kind.DATE,
            [
                "2026-11-30",
                "2026-11-30T08:00Z",
                "2026-11-30T08:00:00",
                "2026-11-30T08:00:00.123456789+05:30",
            ],
            [
                "",
                "30.11.2026",
                "20261130",
                "2026-W49-1",
                "2026-02-30",
                "2026-11-30 08:00",
                "2026-11-30T08",
                "2026-11-30T25:00",
                "0001-01-01T00:00+14:00",
                "٢٠٢٦-11-30",
                "2026-11-30\n",
                20261130,
                True,
            ],
        ),
        (
            Kind.MONEY,
            [0, 1.5, "1250", "-0.50", "1" * 30],
            ["", "1,250.00", "1e3", ".5", "5.", "NaN", "1 ", "٣", True, [], float("inf")],
        ),
        (Kind.JSON, ["", 1, True, [], {"a": [None]}], []),
        (
            Kind.REFERENCE,
            [{"contentType": "A", "id": "1"}, [], [{"contentType": "A", "id": "a:1"}]],
            [
                "A/1",
                {},
                {"contentType": "A"},
                {"contentType": "A", "id": 1},
                {"contentType": "", "id": "1"},
                {"contentType": "A", "id": "a b"},
                [None],
                [[]],
            ],
        ),
    ],
)
def test_a_value_fits_its_field_or_not(kind, good, bad):
    assert [one for one in [*good, None] if not fits(Field(kind), one)] == []
    assert [one for one in bad if fits(Field(kind), one)] == []


def test_faults_name_the_field_and_an_undeclared_one_is_a_concern():
    faults, concerns = check_values(ARTICLE, {"Title": 1, "Price": "x", "New": {}, "Note": None})

    assert [one.name for one in faults] == ["data.Title", "data.Price"]
    assert [one.field for one in concerns] == ["data.New"]


@pytest.mark.parametrize(
    ("sensitivity", "capabilities", "may"),
    [
        (Sensitivity.PUBLIC, {"read_entries"}, True),
        (Sensitivity.PUBLIC, {"manage_entries"}, True),
        (Sensitivity.PUBLIC, set(), False),
        (Sensitivity.SENSITIVE, {"read_entries"}, False),
        (Sensitivity.SENSITIVE, {"manage_entries"}, True),
        (Sensitivity.HIDDEN, {"read_entries"}, False),
        (Sensitivity.HIDDEN, {"read_entries", "manage_entries"}, True),
    ],
)
def test_who_may_read_an_entry(sensitivity, capabilities, may):
    assert may_read(sensitivity, capabilities) is may


def test_a_hidden_or_undeclared_field_is_read_by_nobody():
    data = {"Title": "a", "Price": 1, "Note": "b", "New": 2}

    assert readable_data(ARTICLE, data, {"read_entries"}) == {"Title": "a"}
    assert readable_data(ARTICLE, data, {"manage_entries"}) == {"Title": "a", "Price": 1}
    assert readable_data(None, data, {"manage_entries"}) == {}


def test_only_public_fields_of_a_public_entry_leave():
    entry = replace(DRAFT, data={"Title": "a", "Price": 1, "Note": "b", "New": 2})

    assert public_data(ARTICLE, entry) == {"Title": "a"}
    assert public_data(None, entry) == {}
    assert public_data(ARTICLE, replace(entry, sensitivity=Sensitivity.SENSITIVE)) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a\n", "a\n"),
        (True, "true"),
        (1.5, "1.5"),
        (1250, "1250"),
        ([1, {"a": None}], '[1,{"a":null}]'),
        (AT, "2026-11-30T08:00:00Z"),
        (AT.replace(microsecond=5), "2026-11-30T08:00:00.000005Z"),
    ],
)
def test_a_value_reads_as_json_does(value, text):
    assert text_of(value) == text


def test_a_date_is_its_midnight_and_a_time_without_offset_is_utc():
    assert instant("2026-11-30") == datetime(2026, 11, 30, tzinfo=UTC)
    assert instant("2026-11-30T08:00") == AT
    assert instant("2026-11-30T16:00+08:00") == AT
    assert instant(AT.replace(tzinfo=None)) == AT


@given(JSON)
def test_reading_a_value_never_raises(value):
    instant(value)
    amount(value)
    assert isinstance(text_of(value), str)
