"""The kit that packages outside test their actions with, and the built-in actions through it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from procession.actions import Failed, Skipped, Succeeded, Unknown
from procession.engine.errors import ValidationFailedError
from procession.testing import (
    Answers,
    NotFiredError,
    RefusedError,
    Rehearsal,
    Script,
    answer,
)

RETRYABLE = Failed("503", retryable=True)


def a_workflow(*actions, **more):
    return {
        "name": "Announce",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Published", "Deleted"],
        "actions": [{"type": one} if isinstance(one, str) else one for one in actions],
    } | more


def rehearsing(*actions, entry=None, workflow=None, **given):
    scripts = {"A": Script(), "B": Script()} | given.pop("actions", {})
    body = {"status": "Published", "data": {"Title": "Hello"}, **(entry or {})}
    return Rehearsal(a_workflow(*actions, **(workflow or {})), body, actions=scripts, **given)


async def test_a_run_goes_from_its_queueing_to_its_end():
    rehearsal = rehearsing("A", "B")

    assert await rehearsal.finish() == "Succeeded"
    assert [(one.ordinal, one.number, one.type) for one in rehearsal.tried] == [
        (0, 1, "A"),
        (1, 1, "B"),
    ]


async def test_the_clock_is_moved_and_not_waited_for():
    rehearsal = rehearsing("A", actions={"A": Script(*[RETRYABLE] * 5)})
    began = rehearsal.now

    assert await rehearsal.finish() == "Failed"
    waited = [(one.at - began).total_seconds() for one in rehearsal.tried]
    assert waited == [0, 10, 30, 70, 150]


async def test_a_step_is_one_attempt_and_the_clock_may_be_moved_between():
    rehearsal = rehearsing("A", actions={"A": Script(RETRYABLE)})

    assert (await rehearsal.step()).outcome == RETRYABLE
    rehearsal.advance(timedelta(minutes=1))
    assert (await rehearsal.step()).outcome == Succeeded()
    assert await rehearsal.step() is None


async def test_a_lost_attempt_is_made_again_where_that_does_no_harm():
    rehearsal = rehearsing("A", "B", actions={"B": Script(repeatable=False)})
    rehearsal.lose_next()
    await rehearsal.step()
    await rehearsal.step()
    rehearsal.lose_next()

    assert await rehearsal.finish() == "PartiallyFailed"
    assert rehearsal.statuses == ["Succeeded", "Unknown"]
    assert [one.lost for one in rehearsal.tried] == [True, False, True]


async def test_outputs_are_captured_and_undone_by_halts():
    make, take_back = Script(Succeeded({"id": 7}), outputs=["id"]), Script()
    rehearsal = rehearsing(
        {
            "type": "Make",
            "capture": ["id"],
            "compensate": {"type": "TakeBack", "parameters": {"Id": "{{actions.0.id}}"}},
        },
        {"type": "A", "onFailure": "Halt"},
        actions={"Make": make, "TakeBack": take_back, "A": Script(Failed("no"))},
    )

    assert await rehearsal.finish() == "PartiallyFailed"
    assert rehearsal.run.compensation == "Compensated"
    assert take_back.parameters_seen == [{"Id": "7"}]


async def test_commands_are_those_of_an_operator():
    rehearsal = rehearsing("A", "B", actions={"A": Script(Unknown("perhaps"))})
    await rehearsal.finish()
    rehearsal.retry(0)
    await rehearsal.finish()

    assert rehearsal.statuses == ["Succeeded", "Succeeded"]
    with pytest.raises(RefusedError, match="everything-succeeded"):
        rehearsal.abandon()
    with pytest.raises(RefusedError, match="run-finished"):
        rehearsal.cancel()


def test_a_workflow_that_could_not_be_saved_is_refused():
    with pytest.raises(ValidationFailedError) as refused:
        rehearsing("Nobody", {"type": "Webhook", "parameters": {}})
    assert {one.name for one in refused.value.faults} == {
        "actions[0].type",
        "actions[1].parameters.Url",
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"trigger": "Created"}, "Created"),
        ({"entry": {"contentType": "Page"}}, "Page"),
        ({"workflow": {"conditions": {"Title": "Bye"}}}, "Title"),
    ],
)
def test_an_entry_that_does_not_fire_it_is_told(given, named):
    with pytest.raises(NotFiredError, match=named):
        rehearsing("A", **given)


async def test_calls_are_answered_by_the_test():
    http = Answers(answer(503), answer(204))
    rehearsal = rehearsing(
        {"type": "Webhook", "parameters": {"Url": "https://example.com/{{id}}"}}, http=http
    )

    assert await rehearsal.finish() == "Succeeded"
    first, second = http.sent
    assert (first.method, first.url) == ("POST", "https://example.com/e-1")
    assert first.json()["data"] == {"Title": "Hello"}
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


@pytest.mark.parametrize("before", ["", "A7", None])
async def test_a_text_may_be_written_where_a_text_or_nothing_is(before):
    update = {"type": "UpdateField", "parameters": {"Field": "Number", "Value": "B-8"}}
    rehearsal = rehearsing(update, entry={"data": {"Number": before}})

    assert await rehearsal.finish() == "Succeeded"
    assert rehearsal.entry.data["Number"] == "B-8"


async def test_a_deleted_entry_is_a_stub_and_a_vanished_one_skips():
    deleted = rehearsing("A", trigger="Deleted")
    await deleted.finish()
    gone = rehearsing("A")
    gone.delete_entry()
    await gone.finish()

    assert deleted.statuses == ["Succeeded"]
    assert isinstance(gone.tried[0].outcome, Skipped)


async def test_a_webhook_that_was_lost_sends_the_same_bytes_though_the_entry_is_another():
    rehearsal = rehearsing({"type": "Webhook", "parameters": {"Url": "https://a.example"}})
    rehearsal.lose_next()
    await rehearsal.step()
    (key, entry), *_ = rehearsal.memory.entries.items()
    rehearsal.memory.entries[key] = replace(entry, data={"Title": "Changed"})

    assert await rehearsal.finish() == "Succeeded"
    first, again = rehearsal.http.sent
    assert b"Hello" in first.content
    assert first.content == again.content


LEDGER = {
    "name": "The ledger",
    "baseUrl": "https://ledger.example.com/v1",
    "auth": "OAuth2ClientCredentials",
    "settings": {"tokenUrl": "https://id.example.com/token", "clientId": "us"},
    "secrets": {"clientSecret": "the secret of the client"},
}
BOOK = {
    "name": "Book",
    "connectorSlug": "ledger",
    "pathTemplate": "/invoices",
    "bodyTemplate": '{"title": {{data.Title}}}',
}
GRANTED = answer(200, {"access_token": "tok-1", "token_type": "Bearer", "expires_in": 3600})


def booking(*answers, **changes):
    return rehearsing(
        {"type": "Request", "parameters": {"Request": "book"}},
        connectors={"ledger": LEDGER | changes},
        requests={"book": BOOK},
        http=Answers(*answers),
    )


async def test_a_request_is_sent_through_its_connector():
    rehearsal = booking(GRANTED, answer(503), answer(201))

    assert await rehearsal.finish() == "Succeeded"
    token, first, again = rehearsal.http.sent
    assert token.url == "https://id.example.com/token"
    assert first.url == again.url == "https://ledger.example.com/v1/invoices"
    assert first.headers["Authorization"] == "Bearer tok-1"
    assert first.json() == again.json() == {"title": "Hello"}
    assert len({one.headers["Idempotency-Key"] for one in (first, again)}) == 1


async def test_a_token_grows_old_by_the_clock_of_the_rehearsal():
    rehearsal = booking(GRANTED, answer(503), GRANTED, answer(201))
    await rehearsal.step()
    rehearsal.advance(timedelta(hours=2))

    assert await rehearsal.finish() == "Succeeded"
    assert [one.url for one in rehearsal.http.sent].count("https://id.example.com/token") == 2


@pytest.mark.parametrize(("header", "status"), [("X-Once", "Succeeded"), ("off", "Failed")])
async def test_a_request_that_was_lost_is_sent_again_where_that_does_no_harm(header, status):
    settings = {**LEDGER["settings"], "idempotencyHeader": header}
    rehearsal = booking(GRANTED, answer(201), answer(201), settings=settings)
    rehearsal.lose_next()

    assert await rehearsal.finish() == status
    assert rehearsal.statuses == [{"Failed": "Unknown"}.get(status, status)]


def test_a_request_names_a_connector_that_there_is():
    with pytest.raises(ValidationFailedError):
        rehearsing("A", requests={"book": BOOK})
