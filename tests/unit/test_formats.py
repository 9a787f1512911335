from datetime import UTC, datetime

import pytest

from procession.engine.formats import Misfit, between, show, zone

START = "2026-11-30T08:05:09Z"


def shown(name, *arguments, value=START):
    return show(name, arguments, value, time_zone="UTC", currency="USD")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("yyyy yy", "2026 26"),
        ("MMMM MMM MM M", "November Nov 11 11"),
        ("dddd ddd dd d", "Monday Mon 30 30"),
        ("HH H hh h tt", "08 8 08 8 AM"),
        ("mm m ss s", "05 5 09 9"),
        ("yyyy-MM-ddTHH:mm", "2026-11-30T08:05"),
        ("d. 'de' MMMM", "30. de November"),
        ("''d", "30"),
        ("", "2026-11-30 08:05"),
        (" " * 64, " " * 64),
    ],
)
def test_a_date_is_written_as_the_format_says(form, text):
    assert shown("date", form) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [("00:00", "12 AM"), ("11:59", "11 AM"), ("12:00", "12 PM"), ("23:00", "11 PM")],
)
def test_noon_and_midnight_are_twelve(time, text):
    assert shown("date", "h tt", value=f"2026-01-02T{time}") == text


@pytest.mark.parametrize(
    "arguments",
    [
        ("date", "yyy"),
        ("date", "ddddd"),
        ("date", "t"),
        ("date", "'open"),
        ("date", " " * 65),
        ("date", "d", "Asia/Nowhere"),
        ("date", "d", ""),
        ("date", "d", "../../etc/passwd"),
        ("date", "d", "America"),
        ("date", "d", "Asia/Manila", "x"),
        ("money", "PHP"),
        ("upper", "x"),
        ("shout",),
    ],
)
def test_a_format_that_does_not_fit_is_none(arguments):
    with pytest.raises(Misfit):
        shown(*arguments)


def test_a_zone_moves_a_time_but_not_a_day():
    assert shown("date", "d HH:mm", "Asia/Manila", value="2026-11-30T20:00Z") == "1 04:00"
    assert shown("date", "d HH:mm", "America/New_York", value="2026-11-30") == "30 00:00"
    assert show("date", ["HH"], START, time_zone="Asia/Manila", currency="USD") == "16"


@pytest.mark.parametrize("at", ["9999-12-31T23:59Z", "0001-01-01T00:00Z"])
def test_a_zone_that_leads_out_of_the_calendar_does_not_fit(at):
    with pytest.raises(Misfit):
        shown("date", "d", "Asia/Manila" if at[0] == "9" else "America/New_York", value=at)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1250, "USD 1,250.00"),
        ("1234567.8", "USD 1,234,567.80"),
        (0.005, "USD 0.01"),
        ("-0.005", "USD -0.01"),
        ("2.675", "USD 2.68"),
        (-0.001, "USD 0.00"),
        (10**40, f"USD {10**40:,}.00"),
        (None, ""),
        ("", ""),
    ],
)
def test_money_is_rounded_half_away_from_zero(value, text):
    assert shown("money", value=value) == text


def test_a_number_as_long_as_they_come_is_money_too():
    assert shown("money", value=10**4000).endswith(",000.00")
    assert shown("money", value=1e308).endswith(",000.00")


@pytest.mark.parametrize("value", [True, "1,250", "abc", [], {}, "NaN", float("inf")])
def test_what_is_no_number_is_no_money(value):
    with pytest.raises(Misfit):
        shown("money", value=value)


@pytest.mark.parametrize("code", ["", "PH", "PESO", "12A"])
def test_a_currency_is_three_letters(code):
    with pytest.raises(Misfit):
        shown("money", code, value=1)


def test_case_is_that_of_no_language():
    assert shown("upper", value="istraße") == "ISTRASSE"
    assert shown("lower", value="ISTI") == "isti"
    assert shown("upper", value=True) == "TRUE"
    with pytest.raises(Misfit):
        shown("upper", value=["a"])


@pytest.mark.parametrize(
    ("seconds", "duration", "hours"),
    [
        (8 * 3600 + 1800, "8 hours 30 minutes", "8.5"),
        (45 * 60 + 59, "45 minutes", "0.8"),
        (8 * 3600 + 180, "8 hours 3 minutes", "8.1"),
        (-3660, "-1 hour 1 minute", "-1.0"),
        (20, "0 minutes", "0.0"),
        (-20, "0 minutes", "0.0"),
        (-60, "-1 minute", "0.0"),
        (-180, "-3 minutes", "-0.1"),
        (7200, "2 hours", "2.0"),
        (0, "0 minutes", "0.0"),
    ],
)
def test_the_time_between_is_in_whole_minutes(seconds, duration, hours):
    start = datetime(2026, 11, 30, 8, tzinfo=UTC)
    end = datetime.fromtimestamp(start.timestamp() + seconds, UTC).isoformat()

    assert between("duration", start, end) == duration
    assert between("hours", start, end) == hours


def test_the_time_to_nothing_is_nothing():
    assert between("hours", None, START) == between("duration", START, "") == ""
    with pytest.raises(Misfit):
        between("hours", START, "soon")


def test_a_zone_is_found_by_its_name():
    assert zone("Asia/Manila") is not None
    assert zone("UTC") is not None
    assert zone("/etc/localtime") is None
    assert zone("Äsia/Manila") is None
