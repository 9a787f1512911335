import pytest

from procession.engine.content_type import ContentType, Field, Kind
from procession.engine.field_text import MisfitError, value_of

TYPE = ContentType({kind.value: Field(kind) for kind in Kind})
AUTHOR = {"contentType": "Author", "id": "a-1"}


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("text", " as it is ", " as it is "),
        ("text", "", ""),
        ("undeclared", " 7 ", " 7 "),
        ("number", " 7 ", 7),
        ("number", "-1.50", -1.5),
        ("number", "1e3", 1000.0),
        ("number", "007", 7),
        ("number", "1e308", 10**308),
        ("number", "-0.0", 0.0),
        ("boolean", "TRUE", True),
        ("boolean", "false", False),
        ("date", "2026-11-30", "2026-11-30"),
        ("date", " 2026-11-30T08:00:00Z ", "2026-11-30T08:00:00Z"),
        ("money", "1250", 1250),
        ("money", "12.50", 12.5),
        ("money", "0.12345678901234567890123", "0.12345678901234567890123"),
        ("json", '{"a": [1, "x", null]}', {"a": [1, "x", None]}),
        ("json", "null", None),
        ("json", "[1e308, -1e16, 1e-7, 0.1]", [10**308, -(10**16), 1e-7, 0.1]),
        ("reference", '{"contentType": "Author", "id": "a-1"}', AUTHOR),
        ("reference", '[{"contentType": "Author", "id": "a-1"}]', [AUTHOR]),
        *((kind.value, "  ", None) for kind in Kind if kind is not Kind.TEXT),
    ],
)
def test_a_text_becomes_the_value_of_its_field(field, text, value):
    found = value_of(TYPE, field, text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("text", "a\0b"),
        ("text", "\ud800"),
        ("number", "seven"),
        ("number", "1e999"),
        ("number", "NaN"),
        ("number", "1" * 31),
        ("number", "\u0667"),
        ("boolean", "yes"),
        ("date", "tomorrow"),
        ("date", "2026-13-01"),
        ("money", "1,250"),
        ("money", "1e3"),
        ("json", "{"),
        ("json", '{"a": 1, "a": 2}'),
        ("json", "[NaN]"),
        ("json", "[1e999]"),
        pytest.param("json", f"[{'1e308,' * 4_000}1]", id="long once written out"),
        pytest.param("json", f"[{'1e-308,' * 4_000}1]", id="the same of small numbers"),
        ("json", r'"a\u0000"'),
        ("json", r'{"a\u0000": 1}'),
        ("json", "[" * 70 + "]" * 70),
        ("json", "[" * 100_000),
        ("reference", '{"id": "a-1"}'),
        ("reference", '"a-1"'),
    ],
)
def test_what_does_not_fit_is_refused(field, text):
    with pytest.raises(MisfitError):
        value_of(TYPE, field, text)
