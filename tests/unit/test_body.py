"""Reading JSON strictly: what is refused, and how its place is named."""

import json
import sys

import pytest

from procession.api.body import DEEPEST, decode
from procession.engine.errors import (
    BodyTooLargeError,
    MalformedJsonError,
    ValidationFailedError,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (' {"a": [1, 2.5, true, null, "x"]} ', {"a": [1, 2.5, True, None, "x"]}),
        ('{"a": {"b": 1}, "c": {"b": 1}}', {"a": {"b": 1}, "c": {"b": 1}}),
        (r'"\ud83d\ude00"', "😀"),
        ('"😀 ü"', "😀 ü"),
        ("[" * DEEPEST + "]" * DEEPEST, None),
    ],
)
def test_json_is_read(text, value):
    read = decode(text.encode())

    assert value is None or read == value


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (b"", "line 1 column 1"),
        (b'{"a": 1', "line 1"),
        (b'{"a": 1} x', "Extra data"),
        (b"{'a': 1}", "line 1 column 2"),
        (b'{"a": 1,}', "line 1"),
        (b'["\x01"]', "control character"),
        (b'{"a": "\xff"}', "Byte 7 is not UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "is not UTF-8"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark (BOM) of UTF-8."),
        (b"\xff\xfe{\0}\0", "begins with a byte order mark (BOM) of UTF-16"),
        (b"\xfe\xff\0{\0}", "begins with a byte order mark (BOM) of UTF-16"),
        (b"{\0}\0\xff", "is not UTF-8"),
        (b'{"a": 1, "a": 2}', 'The name "a" comes twice in body'),
        (b'{"d": [{"x": 1, "x": 1}]}', 'The name "x" comes twice in d[0]'),
        (b'{"x": {"a": 1, "a": 2}, "x": 1}', 'The name "x" comes twice in body'),
        (rb'{"\ud800": 1, "\ud800": 2}', "comes twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "nested deeper than"),
        (b'{"a":' * 500_000, "nested too deep"),
    ],
)
def test_what_is_no_json_is_malformed(text, detail):
    with pytest.raises(MalformedJsonError) as caught:
        decode(text)

    assert detail in str(caught.value)
    json.dumps(str(caught.value))  # it can be sent


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r'{"a": "x\u0000"}', ["a"]),
        (r'{"data": {"Title": "\ud800"}}', ["data.Title"]),
        (r'{"data": {"Title": "\udc00\ud800"}}', ["data.Title"]),
        (r'{"data": {"x\u0000": 1}}', ["data"]),
        (r'{"data": {"\udfff": 1}}', ["data"]),
        ('{"actions": [{"a": 1}, {"b": [0, NaN]}]}', ["actions[1].b[1]"]),
        ('{"a": Infinity, "b": -Infinity, "c": 1e999, "d": -1e999}', ["a", "b", "c", "d"]),
        (r'"\u0000"', ["body"]),
        ("NaN", ["body"]),
    ],
)
def test_what_cannot_be_kept_is_named_by_its_path(text, names):
    with pytest.raises(ValidationFailedError) as caught:
        decode(text.encode())

    assert [one.name for one in caught.value.faults] == names


def test_what_may_not_be_kept_is_told_a_hundred_times_by_the_beginning_of_its_place():
    long = "x" * 100_000

    with pytest.raises(ValidationFailedError) as caught:
        decode(json.dumps({long: ["\0"] * 10_000}).encode())

    names = [one.name for one in caught.value.faults]
    assert len(names) == 100
    assert {len(one) for one in names} == {503, 504}
    with pytest.raises(MalformedJsonError) as twice:
        decode(f'{{"{long}": 1, "{long}": 2}}'.encode())
    assert len(str(twice.value)) < 600


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1e-308"])
def test_a_body_is_as_large_as_it_is_with_its_numbers_written_out(number):
    text = f'{{"a": [{number}, {number}]}}'.encode()
    limit = len(text) + 2 * 308

    assert decode(text, limit)
    with pytest.raises(BodyTooLargeError) as caught:
        decode(text, limit - 1)
    assert str(limit - 1) in str(caught.value)


@pytest.mark.parametrize(("item", "most"), [("0", 0), ("[]", 0), ("{}", 1)])
def test_what_holds_nothing_is_not_walked_into(item, most):
    """A body has hundreds of thousands of them, and others wait while it is looked at."""
    text = f"[{','.join([item] * 1000)}]".encode()
    called = []

    sys.setprofile(lambda _, event, __: called.append(event))
    try:
        decode(text)
    finally:
        sys.setprofile(None)

    assert called.count("call") // 1000 == most
