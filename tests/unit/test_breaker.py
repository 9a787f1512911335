import asyncio
from datetime import timedelta

import pytest

from procession.outbound.breaker import Breaker, BreakerRule, Breakers, is_good
from procession.outbound.faults import AddressRefused, BreakerOpen, Timeout

RULE = BreakerRule()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr("circuitbreaker.monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def breaker():
    return Breaker(RULE, "example.com")


def give(breaker, *results):
    for good in results:
        with breaker.call() as call:
            call.good = good


def is_open(breaker):
    try:
        with breaker.call():
            return False
    except BreakerOpen:
        return True


def test_five_failures_of_the_last_ten_open_it(breaker):
    give(breaker, *[False] * 4)
    assert not is_open(breaker)

    give(breaker, False)

    assert is_open(breaker)


def test_good_calls_do_not_close_the_count(breaker):
    give(breaker, *[True, False] * 4)
    assert not is_open(breaker)

    give(breaker, False)

    assert is_open(breaker)


def test_failures_beyond_the_last_ten_are_forgotten(breaker):
    give(breaker, *[False] * 4, *[True] * 10, *[False] * 4)

    assert not is_open(breaker)


def test_failures_older_than_the_sampling_time_are_forgotten(breaker, clock):
    give(breaker, *[False] * 4)
    clock.now += 60

    give(breaker, False)

    assert not is_open(breaker)


def test_calls_that_say_nothing_do_not_count(breaker):
    give(breaker, *[False] * 4, *[None] * 10, False)

    assert is_open(breaker)


def test_a_fault_counts_and_a_refused_address_does_not(breaker):
    for _ in range(5):
        with pytest.raises(AddressRefused), breaker.call():
            raise AddressRefused("example.com")
    assert not is_open(breaker)

    for _ in range(5):
        with pytest.raises(Timeout), breaker.call():
            raise Timeout("example.com")

    assert is_open(breaker)


def test_a_cancelled_call_does_not_count(breaker):
    for _ in range(5):
        with pytest.raises(asyncio.CancelledError), breaker.call():
            raise asyncio.CancelledError

    assert not is_open(breaker)


def test_one_probe_goes_after_the_rest(breaker, clock):
    give(breaker, *[False] * 5)
    clock.now += 29.9
    assert is_open(breaker)
    clock.now += 0.1

    with breaker.call() as probe:
        assert is_open(breaker)
        probe.good = True

    give(breaker, *[False] * 4)
    assert not is_open(breaker)


def test_a_failed_probe_opens_it_again(breaker, clock):
    give(breaker, *[False] * 5)
    clock.now += 30

    give(breaker, False)

    assert is_open(breaker)
    clock.now += 30
    assert not is_open(breaker)


def test_a_cancelled_probe_gives_its_place_to_the_next_call(breaker, clock):
    give(breaker, *[False] * 5)
    clock.now += 30

    with pytest.raises(asyncio.CancelledError), breaker.call():
        raise asyncio.CancelledError

    give(breaker, True)
    assert not is_open(breaker)


def test_a_probe_that_says_nothing_decides_nothing(breaker, clock):
    give(breaker, *[False] * 5)
    clock.now += 30

    give(breaker, None)

    with breaker.call(), pytest.raises(BreakerOpen), breaker.call():
        pass


def test_a_call_from_before_the_trip_is_no_probe(breaker, clock):
    with breaker.call() as early:
        give(breaker, *[False] * 5)
        clock.now += 30
        early.good = True

    with breaker.call() as probe:
        assert is_open(breaker)
        probe.good = False
    assert is_open(breaker)


def test_a_failure_from_before_the_trip_does_not_open_it_again(clock):
    breaker = Breaker(BreakerRule(failures=1), "example.com")
    with breaker.call() as early:
        give(breaker, False)
        clock.now += 30
        early.good = False

    assert not is_open(breaker)


def test_pairs_of_tenant_and_host_are_apart():
    breakers = Breakers(RULE)
    for _ in range(5):
        with breakers.call("acme", "example.com") as call:
            call.good = False

    with breakers.call("acme", "example.org"), breakers.call("other", "example.com"):
        pass
    with pytest.raises(BreakerOpen, match=r"^BreakerOpen: example\.com$"):
        breakers.call("acme", "example.com").__enter__()


def test_the_tenth_that_was_idle_longest_is_forgotten():
    breakers = Breakers(BreakerRule(failures=1))

    def fail(host):
        with breakers.call("acme", host) as call:
            call.good = False

    for number in range(1000):
        fail(f"h{number}")
    with pytest.raises(BreakerOpen):
        breakers.call("acme", "h0").__enter__()  # and so it is idle no more

    fail("one more")

    for host in ("h0", "h101", "h999", "one more"):
        with pytest.raises(BreakerOpen):
            breakers.call("acme", host).__enter__()
    with breakers.call("acme", "h1"), breakers.call("acme", "h100"):
        pass


def test_no_failures_at_all_switches_breakers_off():
    breakers = Breakers(BreakerRule(failures=0))
    for _ in range(20):
        with breakers.call("acme", "example.com") as call:
            call.good = False

    with breakers.call("acme", "example.com"):
        pass


def test_a_rest_may_be_chosen(clock):
    breaker = Breaker(BreakerRule(failures=1, rest=timedelta(seconds=5)), "example.com")
    give(breaker, False)
    clock.now += 5

    assert not is_open(breaker)


@pytest.mark.parametrize(
    ("status", "too_patient", "good"),
    [
        *((status, False, True) for status in (200, 204, 302, 400, 401, 404, 500, 501)),
        *((status, False, False) for status in (408, 502, 503, 504)),
        (429, False, None),
        (503, True, None),
        (500, True, None),
    ],
)
def test_what_an_answer_says_of_its_host(status, too_patient, good):
    assert is_good(status, too_patient=too_patient) is good
