"""What traces have of a call that leaves: to whom and how it ended, and nothing that it carried."""

from contextlib import suppress
from datetime import timedelta

import pytest
from fix_actions import an_attempt
from fix_ledger import CLIENT_ID, CLIENT_SECRET
from fix_receiver import answer, close
from fix_relay import drop, reply

from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.actions.sms import Sms
from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.outbound.faults import Fault
from procession.outbound.oauth import Grant, ask
from procession.outbound.resend import Resend
from procession.outbound.retry import Tries
from procession.outbound.sms import Twilio
from procession.outbound.smtp_session import Security

ONCE, TWICE = Tries(retries=0), Tries(retries=1)
# in the message of the fixture, in what is added here, and in what the relay says
PRIVATE = "ann@example.org", "Ann", "bob@", "hunter2", "desk", "Hello", "5.7.1"


@pytest.fixture
async def guarded(make_relay, relay_tls):
    """A relay that wants to be secured and logged in to."""
    relay = await make_relay(tls_context=relay_tls, require_starttls=True)
    relay.users["desk"] = "hunter2"
    return relay


def spans_of(traced, name):
    """The span of the attempt, and those of this name, each of which is the attempt's child."""
    attempt, calls = traced.one("attempt"), [one for one in traced.all if one.name == name]
    for one in calls:
        assert one.parent.span_id == attempt.context.span_id
        assert one.context.trace_id == attempt.context.trace_id
        assert one.kind.name == "CLIENT"
        assert one.events == ()
    return attempt, calls


def to(relay, sent_again):
    return {
        "network.protocol.name": "smtp",
        "server.address": "relay.example.com",
        "server.port": relay.port,
        "procession.resend_count": sent_again,
    }


async def test_a_message_by_a_relay_is_one_call_of_its_attempt(guarded, email, by, traced):
    provider = by(guarded, Security.STARTTLS, username="desk", password="hunter2")

    assert await email(provider, {"ReplyTo": "bob@example.org"}) == Succeeded()

    attempt, (call,) = spans_of(traced, "send email")
    assert len(traced.all) == 2
    assert dict(call.attributes) == to(guarded, 0)
    assert call.status.status_code.name == "UNSET"
    assert attempt.attributes["procession.outcome"] == "Succeeded"
    assert [one for one in PRIVATE if one in traced.text] == []


@pytest.mark.parametrize(
    ("phase", "act", "kind", "sent_again", "outcome"),
    [
        ("RCPT", reply("550 5.7.1 <ann@example.org>: hunter2"), "NotSent", 1, Failed),
        ("DATA", reply("554 5.7.1 <ann@example.org>: hunter2"), "Refused", 0, Failed),
        ("content", drop, "InDoubt", 0, Unknown),
    ],
)
async def test_how_a_message_ended_is_told_by_the_kind_of_fault(  # noqa: PLR0913, PLR0917  its cases
    relay, email, by, traced, phase, act, kind, sent_again, outcome
):
    relay.will(phase, act, act)

    assert isinstance(await email(by(relay), tries=TWICE), outcome)

    attempt, (call,) = spans_of(traced, "send email")
    assert dict(call.attributes) == to(relay, sent_again) | {"error.type": kind}
    assert call.status.status_code.name == "ERROR"
    assert call.status.description is None
    assert attempt.attributes["procession.outcome"] == outcome.__name__
    assert [one for one in PRIVATE if one in traced.text] == []


async def test_a_message_by_an_api_is_a_call_with_a_span_for_each_try(receiver, email, traced):
    receiver.will(answer(503))
    provider = Resend(api_key="re_hunter2", base=receiver.url(""))

    assert await email(provider, tries=TWICE) == Succeeded()

    _, (sending,) = spans_of(traced, "send email")
    calls = [one for one in traced.all if one.name == "POST"]
    assert dict(sending.attributes) == {"procession.resend_count": 1}
    assert [one.parent.span_id for one in calls] == [sending.context.span_id] * 2
    assert [one.attributes["http.response.status_code"] for one in calls] == [503, 200]
    assert [one for one in PRIVATE if one in traced.text] == []


SECRET = "/hunter2/x?token=hunter2&sig=hunter2"


@pytest.mark.parametrize("happens", [answer(200), answer(302, b"", [("Location", SECRET)]), close])
async def test_of_an_address_a_span_has_the_host_and_of_a_call_no_header_or_body(
    receiver, make_client, traced, happens
):
    receiver.will(happens)
    client = make_client(tries=ONCE).of("default")
    headers = {"Authorization": "Bearer hunter2", "X-Api-Key": "hunter2"}
    with suppress(Fault):
        await client.post(receiver.url(SECRET), headers=headers, json={"a": "hunter2"})

    (call,) = traced.all
    address = {"url.scheme": "http", "server.address": "127.0.0.1", "server.port": receiver.port}
    assert address.items() <= call.attributes.items()
    assert call.attributes.keys() <= address.keys() | {
        *("http.request.method", "http.response.status_code"),
        *("http.request.resend_count", "error.type"),
    }
    assert (await receiver.next()).path == SECRET
    assert "hunter2" not in traced.text


async def test_a_grant_and_a_text_message_leave_no_credential_in_a_span(
    ledger, receiver, make_client, traced
):
    client = make_client()
    url = f"{ledger.url}/token"
    grant = Grant(url=url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, in_body=True)
    token = await ask(client.of("default"), grant)
    provider = Twilio(
        sender="+15005550006", account_sid="AC0123", auth_token="hunter2", base=receiver.url("")
    )
    await perform(
        Registry({"Sms": Sms(provider)}),
        an_attempt("Sms", {"To": "+639171234567", "Message": "Hello"}),
        client=client,
        limit=timedelta(seconds=10),
    )

    told = traced.text
    private = (token.text, CLIENT_ID, CLIENT_SECRET, "AC0123", "hunter2", "+639171234567", "Hello")
    assert [one.name for one in traced.all] == ["POST", "POST", "attempt"]
    assert [one for one in private if one in told] == []
