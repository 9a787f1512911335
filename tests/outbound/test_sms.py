from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from fix_actions import an_attempt
from fix_receiver import answer, answers, close, hang

from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.actions.sms import Sms
from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.outbound.breaker import BreakerRule
from procession.outbound.retry import Tries
from procession.outbound.sms import TWILIO, Twilio

QUICK = Tries(
    each=timedelta(milliseconds=300), floor=timedelta(), ceiling=timedelta(milliseconds=1)
)
LOGIN = {"account_sid": "AC0123", "auth_token": "hunter2"}
WORDS = b'{"message": "+639171234567: hunter2 says no"}'


@pytest.fixture
def sms(make_client, receiver):
    """Performs an Sms, and says what came of it."""
    made = []

    async def perform_it(parameters=None, *, sender="+15005550006", client=None, base=None):
        made.append(client or (made[-1] if made else make_client(tries=QUICK)))
        provider = Twilio(sender=sender, **LOGIN, base=base or receiver.url(""))
        performed = await perform(
            Registry({"Sms": Sms(provider)}),
            an_attempt("Sms", {"To": "+639171234567", "Message": "Hello"} | (parameters or {})),
            client=made[-1],
            limit=timedelta(seconds=10),
        )
        return performed.outcome

    return perform_it


def test_the_address_is_that_of_twilio():
    assert Twilio(sender="+15005550006", **LOGIN).base == TWILIO == "https://api.twilio.com"


async def test_one_message_is_posted_with_the_login(receiver, sms):
    outcome = await sms({"Message": "Grüße & 1+1=2\n{{data.Title}}"})

    (came,) = receiver.received
    assert outcome == Succeeded(response_status=200)
    assert (came.method, came.path) == ("POST", "/2010-04-01/Accounts/AC0123/Messages.json")
    assert came.headers["authorization"] == "Basic QUMwMTIzOmh1bnRlcjI="
    assert came.headers["content-type"] == "application/x-www-form-urlencoded"
    assert "idempotency-key" not in came.headers
    assert parse_qs(came.body.decode(), strict_parsing=True) == {
        "To": ["+639171234567"],
        "Body": ["Grüße & 1+1=2\nHello"],
        "From": ["+15005550006"],
    }


async def test_a_service_may_pick_the_sender(receiver, sms):
    await sms(sender="MG0123")

    told = parse_qs(receiver.received[0].body.decode())
    assert (told["MessagingServiceSid"], "From" in told) == (["MG0123"], False)


@pytest.mark.parametrize("status", [200, 201, 204])
async def test_a_good_answer_is_success(receiver, sms, status):
    receiver.will(answer(status))

    assert await sms() == Succeeded(response_status=status)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_an_answer_that_will_not_change_fails_for_good(receiver, sms, status):
    receiver.will(answer(status, WORDS))

    assert await sms() == Failed(f"HTTP {status}", response_status=status)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (302, 1),
        (402, 1),
        (409, 1),
        (422, 1),
        (500, 1),
        (502, 1),
        (504, 1),
        (408, 3),
        (429, 3),
        (503, 3),
    ],
)
async def test_any_other_answer_is_tried_again_later(receiver, sms, status, sent):
    receiver.will(*[answer(status, WORDS)] * 3)

    outcome = await sms()

    assert outcome == Failed(f"HTTP {status}", retryable=True, response_status=status)
    assert len(receiver.received) == sent


@pytest.mark.parametrize(("act", "kind"), [(hang, "Timeout"), (close, "ConnectionLost")])
async def test_no_answer_to_a_message_that_went_leaves_it_in_doubt(receiver, sms, act, kind):
    receiver.will(act)

    assert await sms() == Unknown(kind)
    assert len(receiver.received) == 1


async def test_a_message_that_never_went_is_tried_again_later(sms, make_client, secure_receiver):
    resolve = answers(other_example_com=["127.0.0.1"], nobody_example_com=[[]] * 3)
    client = make_client(tries=QUICK, resolve=resolve)
    other = secure_receiver.url("", host="other.example.com")

    async def outcome_at(base):
        return await sms(base=base, client=client)

    assert await outcome_at("http://127.0.0.1:1") == Failed("ConnectionFailed", retryable=True)
    assert await outcome_at(other) == Failed("TlsFailed", retryable=True)
    assert await outcome_at("http://nobody.example.com") == Failed(
        "NameNotResolved", retryable=True
    )


async def test_an_inward_address_fails_for_good(sms, make_client):
    client = make_client(resolve=answers(api_twilio_com=["10.0.0.1"]))

    assert await sms(base=TWILIO, client=client) == Failed("AddressRefused: api.twilio.com")


async def test_an_open_breaker_is_tried_again_later(receiver, sms, make_client):
    client = make_client(tries=Tries(retries=0), breaker=BreakerRule(failures=1))
    receiver.will(answer(503))
    base = receiver.url("", host="localhost")
    await sms(base=base, client=client)

    outcome = await sms(base=base, client=client)

    assert outcome == Failed("BreakerOpen: localhost", retryable=True)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "to",
    [
        "",
        "639171234567",
        "+0639171234567",
        "+1",
        "+1234567890123456",
        "+63 917 123 4567",
        "+639171234567\n",
        "+639171234567,+15005550006",
        "+٦٣٩١٧١٢٣٤٥٦٧",
        "ann",
    ],
)
async def test_a_number_in_another_form_fails_for_good(receiver, sms, to):
    assert await sms({"To": to}) == Failed("To is no number in E.164 form.")
    assert receiver.received == []


@pytest.mark.parametrize(
    ("length", "is_sent"), [(0, False), (1, True), (1600, True), (1601, False)]
)
async def test_a_message_has_1_to_1600_characters(receiver, sms, length, is_sent):
    outcome = await sms({"Message": "é" * length})

    assert isinstance(outcome, Succeeded) is is_sent
    assert len(receiver.received) == is_sent
    if not is_sent:
        assert outcome == Failed("Message does not have 1 to 1,600 characters.")


async def test_without_a_provider_it_fails_for_good(performed):
    attempt = an_attempt("Sms", {"To": "+639171234567", "Message": "Hello"})

    said = await performed({"Sms": Sms()}, attempt)

    assert said.outcome == Failed("No provider of text messages is set (SMS__PROVIDER).")
