"""What a write makes of an entry."""

from datetime import UTC, datetime, timedelta

import pytest

from procession.engine.access import Actor, ActorKind
from procession.engine.change import Key, Making, changed, moved, read_change
from procession.engine.content_type import Sensitivity, parse_content_type
from procession.engine.errors import ConflictError, NotFoundError, ValidationFailedError

ARTICLE = parse_content_type(
    {
        "fields": {"Title": {}},
        "lifecycle": {
            "statuses": ["Draft", "Published"],
            "transitions": {
                "Publish": {"from": ["Draft"], "to": "Published"},
                "Touch": {"from": ["Draft"], "to": "Draft"},
            },
        },
    }
)
KEY = Key("default", "Article", "a-1")
NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
ANN, BEN = [Actor(kind=ActorKind.USER, id=one, name=one) for one in ("ann", "ben")]
MADE = Making(ANN, NOW, ARTICLE)
LATER = Making(BEN, NOW + timedelta(hours=1), ARTICLE)


def change(**body):
    return read_change({"data": {"Title": "x"}, **body}, ARTICLE)


def test_a_new_entry_has_the_first_status_and_is_public():
    entry = changed(None, KEY, change(), MADE)

    assert (entry.status, entry.sensitivity, entry.version) == ("Draft", Sensitivity.PUBLIC, 1)
    assert (entry.created_at, entry.updated_at) == (NOW, NOW)
    assert (entry.created_by, entry.updated_by) == (ANN, ANN)


def test_a_change_raises_the_version_and_names_who_made_it():
    before = changed(None, KEY, change(sensitivity="Hidden"), MADE)

    after = changed(before, KEY, change(status="Published"), LATER)

    assert (after.status, after.sensitivity, after.version) == ("Published", "Hidden", 2)
    assert (after.created_at, after.updated_at) == (NOW, LATER.at)
    assert (after.created_by, after.updated_by) == (ANN, BEN)


def test_a_change_that_changes_nothing_is_the_entry_itself():
    before = changed(None, KEY, change(), MADE)

    assert changed(before, KEY, change(status="Draft"), LATER) is before


def test_a_transition_back_to_the_same_status_is_a_change():
    before = changed(None, KEY, change(), MADE)

    after, declared = moved(before, "tOUCH", LATER)

    assert (after.status, after.version, declared) == ("Draft", 2, "Touch")


def test_a_transition_starts_from_where_it_may():
    published = changed(None, KEY, change(status="Published"), MADE)

    with pytest.raises(ConflictError) as caught:
        moved(published, "Publish", LATER)
    with pytest.raises(NotFoundError) as missed:
        moved(published, "Nope", LATER)

    assert "There is no transition Nope. Article declares Publish" in str(missed.value)
    assert caught.value.extras == {"from": ["Draft"]}


@pytest.mark.parametrize("body", [None, 1, "x", [], True])
def test_a_body_is_an_object(body):
    with pytest.raises(ValidationFailedError) as caught:
        read_change(body, ARTICLE)

    assert [one.name for one in caught.value.faults] == ["body"]


def test_a_long_list_of_statuses_or_transitions_is_told_by_its_first():
    names = [f"S{one}" for one in range(200)]
    ways = {f"T{one}": {"from": names, "to": "S0"} for one in range(300)}
    declared = parse_content_type({"lifecycle": {"statuses": names, "transitions": ways}})

    with pytest.raises(ValidationFailedError) as status:
        read_change({"data": {}, "status": "Nope"}, declared)

    assert status.value.faults[0].reason.endswith("S18, S19 and 180 more")
