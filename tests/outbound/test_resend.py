import asyncio
import json
from datetime import timedelta

import pytest
from fix_receiver import answer, answers, close, hang

from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.outbound.breaker import BreakerRule
from procession.outbound.resend import RESEND, Resend
from procession.outbound.retry import Tries

TWICE = Tries(retries=1)
MOMENT = timedelta(milliseconds=200)
WORDS = b'{"message": "ann@example.org: hunter2 says no"}'


@pytest.fixture
def resend(receiver):
    return Resend(api_key="re_hunter2", each=timedelta(seconds=5), base=receiver.url(""))


def test_the_address_is_that_of_resend():
    assert RESEND == "https://api.resend.com"
    assert Resend(api_key="re_hunter2").base == RESEND


async def test_one_message_is_posted_with_the_key(receiver, email, resend):
    outcome = await email(resend, {"Text": "Hello", "ReplyTo": "bob@example.org"})

    (came,) = receiver.received
    assert outcome == Succeeded()
    assert (came.method, came.path) == ("POST", "/emails")
    assert came.headers["authorization"] == "Bearer re_hunter2"
    assert came.headers["content-type"] == "application/json"
    assert "idempotency-key" not in came.headers
    assert json.loads(came.body) == {
        "from": "Desk <desk@example.com>",
        "to": ["Ann <ann@example.org>"],
        "subject": "Hello",
        "html": "<p>Hello</p>",
        "text": "Hello",
        "reply_to": "bob@example.org",
    }


async def test_what_is_not_given_is_not_told(receiver, email, resend):
    await email(resend, {"Subject": "Hello\r\n there"})

    told = json.loads(receiver.received[0].body)
    assert sorted(told) == ["from", "html", "subject", "to"]
    assert told["subject"] == "Hello   there"


@pytest.mark.parametrize("status", [200, 201, 202, 299])
async def test_a_good_answer_is_success(receiver, email, resend, status):
    receiver.will(answer(status))

    assert await email(resend) == Succeeded()


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_answer_is_tried_again(receiver, email, resend, status):
    receiver.will(answer(status, WORDS))
    assert await email(resend, tries=TWICE) == Succeeded()

    receiver.will(*[answer(status, WORDS)] * 2)
    assert await email(resend, tries=TWICE) == Failed(
        f"Resend: HTTP {status}", retryable=True, response_status=status
    )
    assert len(receiver.received) == 4


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 408, 409, 422, 500, 502, 504])
async def test_any_other_answer_is_for_the_durable_queue(receiver, email, resend, status):
    receiver.will(answer(status, WORDS))

    outcome = await email(resend, tries=TWICE)

    assert outcome == Failed(f"Resend: HTTP {status}", retryable=True, response_status=status)
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("asked", "sent"), [("5", 2), ("0", 2), ("6", 1), ("86400", 1), ("soon", 2)]
)
async def test_a_long_wait_that_is_asked_for_ends_the_tries(receiver, email, resend, asked, sent):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    receiver.will(answer(429, headers=[("Retry-After", asked)]))

    outcome = await email(resend, tries=TWICE, sleep=note)

    assert len(receiver.received) == sent
    assert len(waits) == sent - 1
    assert all(one <= 2 for one in waits)
    assert isinstance(outcome, Succeeded if sent == 2 else Failed)


@pytest.mark.parametrize(("act", "kind"), [(hang, "Timeout"), (close, "ConnectionLost")])
async def test_no_answer_to_a_request_that_went_leaves_it_in_doubt(receiver, email, act, kind):
    receiver.will(act)
    provider = Resend(api_key="re_hunter2", each=MOMENT, base=receiver.url(""))

    outcome = await email(provider, tries=TWICE)

    assert outcome == Unknown(f"Resend: {kind}")
    assert len(receiver.received) == 1


async def test_a_request_that_never_went_is_tried_again(email, make_client, secure_receiver):
    names = {
        "hooks_example_com": [["127.0.0.1"]],
        "other_example_com": [["127.0.0.1"]] * 2,
        "nobody_example_com": [[]] * 2,
    }
    client = make_client(resolve=answers(**names))

    async def error_of(base):
        outcome = await email(Resend(api_key="re_hunter2", base=base), tries=TWICE, client=client)
        assert outcome.retryable
        return outcome.error

    assert await error_of("http://127.0.0.1:1") == "Resend: ConnectionFailed"
    assert await error_of(f"https://other.example.com:{secure_receiver.port}") == (
        "Resend: TlsFailed"
    )
    assert await error_of("http://nobody.example.com") == "Resend: NameNotResolved"
    assert [names["other_example_com"], names["nobody_example_com"]] == [[], []]


async def test_an_inward_address_fails_for_good(email, make_client):
    client = make_client(resolve=answers(api_resend_com=["10.0.0.1"]))

    outcome = await email(Resend(api_key="re_hunter2"), tries=TWICE, client=client)

    assert outcome == Failed("AddressRefused: api.resend.com")


async def test_the_name_is_proved(email, make_client, secure_receiver):
    client = make_client(resolve=answers(hooks_example_com=["127.0.0.1"]))
    base = secure_receiver.url("", host="hooks.example.com")

    assert await email(Resend(api_key="re_hunter2", base=base), client=client) == Succeeded()


async def test_there_is_no_breaker(receiver, email, make_client, resend):
    client = make_client(breaker=BreakerRule(failures=1, window=1))
    receiver.will(*[answer(503)] * 3)

    for _ in range(3):
        await email(resend, client=client)

    assert len(receiver.received) == 3


async def test_a_request_has_a_time_of_its_own(receiver, email, make_client, resend):
    async def slowly(writer):
        await asyncio.sleep(0.3)
        await answer(200)(writer)

    receiver.will(slowly)
    client = make_client(tries=Tries(each=timedelta(milliseconds=100)))

    assert await email(resend, client=client) == Succeeded()
    assert Resend(api_key="re_hunter2").bound == timedelta(seconds=100)


async def test_an_answer_counts_though_its_body_never_comes(receiver, email, resend):
    async def act(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        await hang(writer)

    receiver.will(act)

    assert await email(resend, limit=timedelta(seconds=3)) == Succeeded()


async def test_a_limit_for_all_tries_says_what_it_cut_off(receiver, email, resend):
    async def for_ever(_seconds):
        await asyncio.Event().wait()

    receiver.will(hang, answer(429))

    assert await email(resend, tries=TWICE, limit=MOMENT) == Unknown("Resend: Timeout")
    assert await email(resend, tries=TWICE, limit=MOMENT, sleep=for_ever) == Failed(
        "Email: Timeout", retryable=True
    )


async def test_a_limit_before_the_request_went_finds_nothing_sent(email, make_client):
    async def never(_host):
        await asyncio.Event().wait()

    provider = Resend(api_key="re_hunter2", base="http://api.example.com")

    outcome = await email(provider, limit=MOMENT, client=make_client(resolve=never))

    assert outcome == Failed("Resend: Timeout", retryable=True)
