"""How many refused credentials an address may have, and whom that never touches."""

from contextlib import suppress

import pytest

from procession.api import attempts
from procession.api.attempts import Attempts
from procession.engine.errors import TooManyAttemptsError, UnauthenticatedError


@pytest.fixture
def tries(clock):
    return Attempts(3, 10.0, clock)


class LeftError(Exception):
    """Neither worked nor was refused."""


def waits(tries, address, credential="x"):
    """How long it is told to wait; None when it is let in."""
    try:
        with suppress(LeftError), tries.look(address, credential):
            raise LeftError
    except TooManyAttemptsError as error:
        return int(error.headers["Retry-After"])
    return None


def fail(tries, address, times=3, credential="bad"):
    """So many at once, each of which is refused."""
    looks = [tries.look(address, credential) for _ in range(times)]
    for one in looks:
        one.__enter__()
    for one in looks:
        with pytest.raises(UnauthenticatedError) as refused:
            raise UnauthenticatedError
        assert not one.__exit__(refused.type, refused.value, refused.tb)


def work(tries, address, credential):
    with tries.look(address, credential):
        assert credential


def test_so_many_at_once_and_then_one_at_a_time(tries, clock):
    for _ in range(3):
        assert waits(tries, "a") is None
        fail(tries, "a", 1)

    assert waits(tries, "a") == 10
    clock.now += 9.5
    assert waits(tries, "a") == 1
    clock.now += 0.5
    assert waits(tries, "a") is None
    fail(tries, "a", 1)
    assert waits(tries, "a") == 10
    clock.now += 1_000
    fail(tries, "a", 2)
    assert waits(tries, "a") is None


def test_however_many_came_at_once_the_next_is_let_in_as_soon(tries, clock):
    fail(tries, "a", 30)  # before the first of them was counted

    assert waits(tries, "a") == 10
    clock.now += 10
    assert waits(tries, "a") is None


def test_where_some_were_refused_those_that_are_looked_at_may_be_too(tries):
    fail(tries, "a", 1)

    with tries.look("a", "one"), tries.look("a", "two"):
        assert waits(tries, "a") == 10
        assert waits(tries, "b") is None
    assert waits(tries, "a") is None


def test_nobody_else_feels_it(tries):
    fail(tries, "192.0.2.1")

    assert waits(tries, "192.0.2.1") == 10
    assert waits(tries, "192.0.2.2") is None
    assert waits(tries, "") is None


def test_a_credential_that_worked_of_late_is_let_by_from_the_same_address(tries):
    work(tries, "b", "good")
    fail(tries, "a")

    assert waits(tries, "a", "good") is None
    assert waits(tries, "a", "bad") == 10


def test_one_that_is_refused_is_trusted_no_more(tries):
    work(tries, "a", "old")
    fail(tries, "a")
    fail(tries, "a", 1, "old")

    assert waits(tries, "a", "old") == 10


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
        work(tries, "elsewhere", f"c{number}")

    assert waits(tries, "a999") == 10  # what came last is what is remembered
    assert waits(tries, "a0") is None
    assert waits(tries, "a999", "c999") is None
    assert waits(tries, "a999", "c0") == 10
