"""Secrets as they are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.queue.sealing import NO_KEYS, SEALED, Place, Ring, UnreadableError

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
PLACE = Place("acme", "w1", "actions[0].parameters.Secret")
SECRET = "hunter2"


@given(st.text(min_size=1))
def test_what_was_sealed_can_be_opened_where_it_was_put(secret):
    ring = Ring({"a": OLD})

    sealed = ring.seal(secret, PLACE)

    assert SEALED.fullmatch(sealed)
    assert len(secret) < 4 or secret not in sealed
    assert ring.open(sealed, PLACE) == secret


def test_no_two_are_alike():
    assert Ring({"a": OLD}).seal(SECRET, PLACE) != Ring({"a": OLD}).seal(SECRET, PLACE)


@pytest.mark.parametrize(
    "elsewhere",
    [
        Place("bravo", "w1", "actions[0].parameters.Secret"),
        Place("acme", "w2", "actions[0].parameters.Secret"),
        Place("acme", "w1", "actions[1].parameters.Secret"),
        Place("acme", "w1", 'actions[0].parameters.Secret", "'),
    ],
)
def test_one_that_is_copied_elsewhere_cannot_be_opened(elsewhere):
    sealed = Ring({"a": OLD}).seal(SECRET, PLACE)

    with pytest.raises(UnreadableError):
        Ring({"a": OLD}).open(sealed, elsewhere)


def test_the_first_key_seals_and_all_of_them_open():
    before = Ring({"a": OLD}).seal(SECRET, PLACE)
    ring = Ring({"b": NEW, "a": OLD})

    after = ring.renewed(before, PLACE)

    assert (ring.is_current(before), ring.is_current(after)) == (False, True)
    assert after.startswith("v1.b.")
    assert ring.renewed(after, PLACE) == after
    assert Ring({"b": NEW}).open(after, PLACE) == SECRET


@pytest.mark.parametrize("ring", [NO_KEYS, Ring({"b": OLD}), Ring({"a": NEW})])
def test_without_its_key_it_cannot_be_opened(ring):
    with pytest.raises(UnreadableError):
        ring.open(Ring({"a": OLD}).seal(SECRET, PLACE), PLACE)


@pytest.mark.parametrize("at", [6, 20, -1])
def test_one_that_was_changed_cannot_be_opened(at):
    sealed = Ring({"a": OLD}).seal(SECRET * 3, PLACE)
    at %= len(sealed)
    changed = sealed[:at] + ("A" if sealed[at] != "A" else "Q") + sealed[at + 1 :]

    with pytest.raises(UnreadableError):
        Ring({"a": OLD}).open(changed, PLACE)


def test_one_that_an_older_release_kept_in_plain_is_used_and_renewed():
    ring = Ring({"a": OLD})

    assert ring.open(SECRET, PLACE) == SECRET
    assert ring.open(ring.renewed(SECRET, PLACE), PLACE) == SECRET


def test_the_same_secret_leaves_what_is_stored():
    ring = Ring({"a": OLD})
    stored = ring.seal(SECRET, PLACE)

    assert ring.resealed(SECRET, stored, PLACE) == stored
    assert ring.open(ring.resealed("other", stored, PLACE), PLACE) == "other"
    assert ring.open(ring.resealed(SECRET, None, PLACE), PLACE) == SECRET
    assert Ring({"b": NEW}).resealed(SECRET, stored, PLACE).startswith("v1.b.")


def test_a_key_is_known_by_its_digest():
    api, worker = Ring({"b": NEW, "a": OLD}), Ring({"a": OLD, "b": NEW})

    assert worker.holds(api.digest)
    assert not Ring({"a": OLD}).holds(api.digest)
    assert NEW not in api.digest
