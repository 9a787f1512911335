"""If-Match and If-None-Match."""

import pytest

from procession.engine.errors import ValidationFailedError, VersionMismatchError
from procession.engine.precondition import Precondition


def given(header):
    return [] if header is None else header.split(" and ")


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "version", "holds"),
    [
        (None, None, None, True),
        (None, None, 3, True),
        ('"3"', None, 3, True),
        ('"2", "3"', None, 3, True),
        ('"2"', None, 3, False),
        ('"2"', None, None, False),
        ("*", None, 3, True),
        ("*", None, None, False),
        (None, "*", None, True),
        (None, "*", 1, False),
    ],
)
def test_a_version_meets_what_is_asked_of_it(if_match, if_none_match, version, holds):
    asked = Precondition.of(given(if_match), given(if_none_match))

    if holds:
        asked.check(version)
    else:
        with pytest.raises(VersionMismatchError) as caught:
            asked.check(version)
        assert caught.value.extras == {"version": version or 0}
        there = f"It is at version {version}." if version else "There is no such entry."
        assert caught.value.detail == there


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "name"),
    [
        ("3", None, "If-Match"),
        ('W/"3"', None, "If-Match"),
        ('"0"', None, "If-Match"),
        ('"3", x', None, "If-Match"),
        ("", None, "If-Match"),
        (None, '"3"', "If-None-Match"),
        ('"3" and "3"', None, "If-Match"),
        (None, "* and *", "If-None-Match"),
    ],
)
def test_what_names_no_version_is_refused(if_match, if_none_match, name):
    asked = Precondition.of(given(if_match), given(if_none_match))

    with pytest.raises(ValidationFailedError) as caught:
        asked.check(3)
    with pytest.raises(ValidationFailedError):
        asked.refuse_unread()
    assert [one.name for one in caught.value.faults] == [name]
