"""How many refused credentials an address may have, and whom that never touches."""

import pytest

from procession.api import attempts
from procession.api.attempts import Attempts
from procession.engine.errors import TooManyAttemptsError


@pytest.fixture
def tries(clock):
    return Attempts(3, 10.0, clock)


def waits(tries, address, credential="x"):
    """How long it is told to wait; None when it is let in."""
    try:
        tries.admit(address, credential)
    except TooManyAttemptsError as error:
        return int(error.headers["Retry-After"])
    return None


def fail(tries, address, times=3):
    for _ in range(times):
        tries.refused(address)


def test_so_many_at_once_and_then_one_at_a_time(tries, clock):
    for _ in range(3):
        assert waits(tries, "a") is None
        tries.refused("a")

    assert waits(tries, "a") == 10
    clock.now += 9.5
    assert waits(tries, "a") == 1
    clock.now += 0.5
    assert waits(tries, "a") is None
    tries.refused("a")
    assert waits(tries, "a") == 10
    clock.now += 1_000
    fail(tries, "a", 2)
    assert waits(tries, "a") is None


def test_it_is_told_on_the_way_out_of_the_limit_how_long_is_left(tries, clock):
    fail(tries, "a", 30)  # at once, before the first of them was counted

    assert waits(tries, "a") == 280
    clock.now += 280
    assert waits(tries, "a") is None


def test_nobody_else_feels_it(tries):
    fail(tries, "192.0.2.1")

    assert waits(tries, "192.0.2.1") == 10
    assert waits(tries, "192.0.2.2") is None
    assert waits(tries, "") is None


def test_a_credential_that_worked_of_late_is_let_by_from_the_same_address(tries):
    tries.worked("good")
    fail(tries, "a")

    assert waits(tries, "a", "good") is None
    assert waits(tries, "a", "bad") == 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_of_ipv6_one_holder_has_a_network(tries, one, other, same):
    fail(tries, one)

    assert (waits(tries, other) is not None) is same


def test_a_flood_of_addresses_or_credentials_takes_no_more_memory(tries, monkeypatch):
    monkeypatch.setattr(attempts, "ADDRESSES", 100)
    monkeypatch.setattr(attempts, "TRUSTED", 100)
    for number in range(1_000):
        fail(tries, f"a{number}")
        tries.worked(f"c{number}")

    assert waits(tries, "a999") == 10  # what came last is what is remembered
    assert waits(tries, "a0") is None
    assert waits(tries, "a999", "c999") is None
    assert waits(tries, "a999", "c0") == 10
