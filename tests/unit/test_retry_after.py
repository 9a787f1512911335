from datetime import UTC, datetime, timedelta

import pytest

from procession.outbound.retry_after import read_retry_after

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3),
        ("0", 0),
        (" 7 ", 7),
        ("\t7", 7),
        ("007", 7),
        ("9999999999", 9999999999),
        ("99999999999", 9999999999),
        ("9" * 5000, 9999999999),
        ("0" * 5000 + "7", 7),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Mon, 30 Nov 2026 08:00:09 GMT", 9),
        ("Monday, 30-Nov-26 08:00:09 GMT", 9),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-77 08:49:37 GMT", 0),
        ("Mon Nov 30 08:00:09 2026", 9),
        ("Sun Nov  6 08:49:37 1994", 0),
    ],
)
def test_a_wait_is_read(value, seconds):
    assert read_retry_after([value], NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [
        *("-1", "+1", "1.5", "3s", "soon", "", " ", "1 2", "1,2", "٣", "0x1"),
        *("2026-11-30T08:00:00Z", "Mon, 30 Nov 2026 08:00:09", "Mon, 30 Nov 2026 08:00:09 +0000"),
        *("Mon, 31 Feb 2026 08:00:09 GMT", "Mon, 30 Nov 2026 24:00:09 GMT"),
        *("mon, 30 nov 2026 08:00:09 gmt", "30 Nov 2026 08:00:09 GMT"),
    ],
)
def test_what_is_no_wait_is_as_if_absent(value):
    assert read_retry_after([value], NOW) is None


def test_two_headers_are_as_if_absent():
    assert read_retry_after(["3", "3"], NOW) is None


def test_a_year_fifty_years_ahead_is_still_to_come():
    wait = read_retry_after(["Monday, 30-Nov-76 08:00:00 GMT"], NOW)

    assert wait is not None
    assert wait > timedelta(days=18_000)
