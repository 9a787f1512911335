"""Filling the holes of a stored request."""

import json

import pytest
from fix_actions import AT, an_entry
from hypothesis import given
from hypothesis import strategies as st

from procession.engine.content_type import ContentType, Field, Sensitivity
from procession.engine.entry import Stub
from procession.engine.holes import HoleError, Place, fill
from procession.engine.json_path import holds, is_json_path
from procession.engine.scope import Names
from procession.engine.templates import TooLongError

TYPE = ContentType(
    {
        **{name: Field() for name in ("Title", "Rank", "Live", "Empty", "Extra", "Start")},
        "Price": Field(sensitivity=Sensitivity.SENSITIVE),
        "Cost": Field(sensitivity=Sensitivity.HIDDEN),
    }
)
DATA = {
    "Title": 'A "b" \\ c/d é\n',
    "Rank": 1.5,
    "Live": True,
    "Empty": None,
    "Extra": {"a": [1, "x"]},
    "Start": "2026-11-30T08:00:00Z",
    "Price": 7,
    "Cost": 3,
    "Stray": "s",
}


def names(content_type=TYPE, **changes):
    return Names(entry=an_entry(data=DATA, **changes), content_type=content_type)


def filled(text, place=Place.TEXT, **changes):
    return fill(text, names(**changes), place)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"t":"{{data.Title}}"}', {"t": DATA["Title"]}),
        ('{"t":{{data.Title}}}', {"t": DATA["Title"]}),
        ('{"t":"x {{data.Title}} y"}', {"t": f"x {DATA['Title']} y"}),
        ('[{{data.Rank}}, "{{data.Rank}}"]', [1.5, "1.5"]),
        ('[{{data.Live}}, "{{data.Live}}"]', [True, "true"]),
        ('[{{data.Empty}}, "{{data.Empty}}"]', [None, ""]),
        ('[{{data.Extra}}, "{{data.Extra}}"]', [DATA["Extra"], '{"a":[1,"x"]}']),
        ('["\\"{{data.Title}}", {{id}}]', [f'"{DATA["Title"]}', "a-17"]),
        (
            "[{{createdAt}}, {{data.Title | upper}}]",
            ["2026-11-30T08:00:00Z", DATA["Title"].upper()],
        ),
        ('[{{data.Start | date "yyyy"}}]', ["2026"]),
        ("[{{duration data.Start data.Start}}]", ["0 minutes"]),
    ],
)
def test_in_json_a_hole_is_a_value_or_a_part_of_a_text(text, value):
    assert json.loads(filled(text, Place.JSON)) == value


@given(st.text())
def test_no_value_ends_the_text_that_it_is_in(value):
    entry = an_entry(data={"Title": value})
    template = '{"a":"{{data.Title}}","b":{{data.Title}}}'

    made = fill(template, Names(entry=entry, content_type=TYPE), Place.JSON)

    assert json.loads(made) == {"a": value, "b": value}


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place.PATH, "A%20%22b%22%20%5C%20c%2Fd%20%C3%A9%0A"),
        (Place.FORM, "A%20%22b%22%20%5C%20c%2Fd%20%C3%A9%0A"),
        (Place.TEXT, DATA["Title"]),
    ],
)
def test_elsewhere_it_is_encoded_for_its_place(place, text):
    assert filled("<{{data.Title}}>", place) == f"<{text}>"


@pytest.mark.parametrize(
    "hole",
    [
        "{{data.Price}}",
        "{{data.Cost}}",
        "{{data.Stray}}",
        "{{data.Nope}}",
        "{{data.Title.Name}}",
        "{{nope}}",
        "{{transition.name}}",
        "{{createdBy.email}}",
        "{{links.run}}",
        '{{links.site "x"}}',
        "{{actions.0.id}}",
        "{{#each data.Title}}x{{/each}}",
        "{{data.Title | date}}",
        "{{duration data.Title data.Start}}",
        "{{duration data.Price data.Start}}",
        "{{ what is this }}",
    ],
)
@pytest.mark.parametrize("place", Place)
def test_what_may_not_leave_or_gives_nothing_is_named(hole, place):
    with pytest.raises(HoleError) as refused:
        filled(f'"{hole}"', place)

    assert refused.value.written == hole


@pytest.mark.parametrize(
    "changes",
    [{"sensitivity": Sensitivity.SENSITIVE}, {"sensitivity": Sensitivity.HIDDEN},
     {"content_type": None}],
)  # fmt: skip
def test_of_an_entry_that_is_not_public_or_not_defined_no_field_leaves(changes):
    with pytest.raises(HoleError):
        filled("{{data.Title}}", **changes)

    assert filled("{{id}} {{contentType}} {{status}}", **changes) == "a-17 Article Published"


def test_of_a_deleted_entry_its_names_are_left():
    gone = Names(entry=Stub(id="a-17", content_type="Article"), content_type=TYPE)

    assert fill("{{id}}/{{status}}/{{updatedAt}}", gone, Place.TEXT) == "a-17//"
    with pytest.raises(HoleError):
        fill("{{data.Title}}", gone, Place.TEXT)


def test_half_an_escape_before_a_hole_is_refused():
    with pytest.raises(HoleError):
        filled('"\\{{data.Title}}"', Place.JSON)


def test_what_is_put_in_is_never_read_again():
    entry = an_entry(data={"Title": "{{data.Cost}}"})

    made = fill("{{data.Title}}", Names(entry=entry, content_type=TYPE), Place.TEXT)

    assert made == "{{data.Cost}}"


def test_too_long_a_text_is_refused():
    entry = an_entry(data={"Title": "x" * 600_000}, created_at=AT)

    with pytest.raises(TooLongError):
        fill("{{data.Title}}" * 2, Names(entry=entry, content_type=TYPE), Place.TEXT)


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("$.a", True),
        ("$.a.b[0]", True),
        ("$.a.b[1].c", True),
        ("$.a.b[2]", False),
        ("$.a.x", False),
        ("$.a[0]", False),
        ("$.a.b.c", False),
        ("$.n", True),
    ],
)
def test_a_path_leads_to_a_place_or_to_none(path, is_there):
    assert is_json_path(path)
    assert holds({"a": {"b": [1, {"c": None}]}, "n": None}, path) is is_there


@pytest.mark.parametrize(
    "path", ["", "$", "a", "$.", "$..a", "$[*]", "$.a[-1]", "$.a[x]", "$['a']", "$.a b", "$.a" * 21]
)
def test_anything_else_is_no_path(path):
    assert not is_json_path(path)
