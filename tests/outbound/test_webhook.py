import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from fix_actions import an_attempt, an_entry
from fix_receiver import answer, answers, close
from standardwebhooks.webhooks import Webhook as Judge

from procession.actions.load import built_in, load
from procession.actions.perform import perform
from procession.actions.webhook import delivery_id
from procession.engine.content_type import Sensitivity
from procession.engine.outcome import Failed, Succeeded
from procession.outbound.breaker import BreakerRule
from procession.outbound.retry import Tries

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "whsec_" + "QUJD" * 10
KEY = "5f0c1d2e8a4b4c6d9e0f112233445566-0"
ONCE = Tries(retries=0, each=timedelta(milliseconds=300))
BODY = (
    b'{"event":"Published","tenant":"default","entryId":"a-17","contentType":"Article",'
    b'"status":"Published","data":{"Title":"Hello"},"createdAt":"2026-11-30T08:00:00Z",'
    b'"updatedAt":"2026-11-30T08:05:00Z"}'
)


@pytest.fixture
def deliver(make_client):
    """Performs a Webhook to an address, and says what came of it."""
    made = []

    async def deliver_it(url, secret=None, *, insecure=False, client=None, **changes):
        parameters = {"Url": url} | ({} if secret is None else {"Secret": secret})
        made.append(client or (made[-1] if made else make_client(tries=ONCE)))
        return await perform(
            load(built_in(allow_insecure_signed_urls=insecure), []),
            an_attempt("Webhook", parameters, **changes),
            client=made[-1],
            limit=timedelta(seconds=10),
        )

    return deliver_it


async def test_the_entry_is_told_as_far_as_it_is_public(receiver, deliver):
    performed = await deliver(receiver.url("/hook"))

    (came,) = receiver.received
    assert performed.outcome == Succeeded(response_status=200)
    assert performed.body == BODY.decode()
    assert (came.method, came.path, came.body) == ("POST", "/hook", BODY)


async def test_the_headers_are_the_promised_ones(receiver, deliver):
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    await deliver(receiver.url(), traceparent=traceparent, correlation_id="req 9")

    headers = receiver.received[0].headers
    assert abs(int(headers.pop("webhook-timestamp")) - datetime.now(UTC).timestamp()) < 5
    assert headers.pop("user-agent").startswith("Procession/")
    assert headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept-encoding": "identity",
        "content-type": "application/json; charset=utf-8",
        "content-length": str(len(BODY)),
        "webhook-id": delivery_id(KEY),
        "idempotency-key": KEY,
        "x-procession-tenant": "default",
        "x-procession-run": "5f0c1d2e-8a4b-4c6d-9e0f-112233445566",
        "x-correlation-id": "req 9",
        "traceparent": traceparent,
    }


@pytest.mark.parametrize("odd", ["a\r\nX-Evil: 1", " a", "a ", "ä", "x" * 129, ""])
async def test_a_correlation_that_would_break_the_headers_is_left_out(receiver, deliver, odd):
    performed = await deliver(receiver.url(), correlation_id=odd)

    assert performed.outcome == Succeeded(response_status=200)
    assert "x-correlation-id" not in receiver.received[0].headers


async def test_a_traceparent_that_would_break_the_headers_is_left_out(receiver, deliver):
    performed = await deliver(receiver.url(), traceparent="00-a\r\nX-Evil: 1")

    assert performed.outcome == Succeeded(response_status=200)
    assert "traceparent" not in receiver.received[0].headers


@pytest.mark.parametrize("sensitivity", [Sensitivity.SENSITIVE, Sensitivity.HIDDEN])
async def test_nothing_of_an_entry_that_is_not_public_is_told(receiver, deliver, sensitivity):
    await deliver(receiver.url(), entry=an_entry(sensitivity=sensitivity))

    assert b'"data":{},' in receiver.received[0].body


async def test_nothing_of_an_entry_whose_type_is_not_defined_is_told(receiver, deliver):
    await deliver(receiver.url(), defined=None)

    assert b'"data":{},' in receiver.received[0].body


async def test_of_a_deleted_entry_only_its_name_is_told(receiver, deliver):
    for entry in (None, an_entry()):
        await deliver(receiver.url(), trigger="Deleted", entry=entry)

    told = b'{"event":"Deleted","tenant":"default","entryId":"a-17","contentType":"Article"}'
    assert [one.body for one in receiver.received] == [told, told]


async def test_a_later_attempt_sends_the_bytes_of_the_first(receiver, deliver):
    receiver.will(answer(500))
    first = await deliver(receiver.url())

    await deliver(
        receiver.url(), body=first.body, number=2, entry=an_entry(data={"Title": "Changed"})
    )

    assert [one.body for one in receiver.received] == [BODY, BODY]
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 1


async def test_an_undo_is_a_delivery_of_its_own(receiver, deliver):
    await deliver(receiver.url())
    await deliver(receiver.url(), undo_of="Webhook")

    assert [one.headers["idempotency-key"] for one in receiver.received] == [KEY, KEY + "-undo"]
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 2


def test_the_delivery_id_never_changes():
    assert delivery_id(KEY) == "0c03321d-8d09-5ccd-9085-bf0fd470f2b3"
    assert UUID(delivery_id(KEY)).version == 5


async def test_values_in_the_address_are_encoded_but_at_its_start(receiver, deliver):
    entry = an_entry(data={"Title": f"a b/../?x#{'y'}", "Url": receiver.url()})

    await deliver("{{data.Title}}", entry=an_entry(data={"Title": receiver.url("/start")}))
    await deliver(receiver.url("/hook/{{data.Title}}"), entry=entry)

    assert [one.path for one in receiver.received] == ["/start", "/hook/a%20b%2F..%2F%3Fx%23y"]


@pytest.mark.parametrize("secrets", [[SECRET], [SECRET, OTHER], [SECRET, OTHER, SECRET]])
async def test_an_independent_judge_accepts_each_signature(
    secure_receiver, make_client, deliver, secrets
):
    client = make_client(resolve=answers(hooks_example_com=["127.0.0.1"]))

    url = secure_receiver.url("/hook", host="hooks.example.com")
    performed = await deliver(url, " ".join(secrets), client=client)

    (came,) = secure_receiver.received
    assert performed.outcome == Succeeded(response_status=200)
    assert len(came.headers["webhook-signature"].split(" ")) == len(secrets)
    for secret in secrets:
        assert Judge(secret).verify(came.body, came.headers)["entryId"] == "a-17"


async def test_each_try_has_the_id_and_a_time_and_a_signature_of_its_own(
    receiver, make_client, deliver, monkeypatch
):
    times = iter([1764547200, 1764547201, 1764547202])
    monkeypatch.setattr("procession.actions.webhook.time.time", lambda: next(times))
    receiver.will(close, answer(504))
    quick = Tries(floor=timedelta(), ceiling=timedelta(milliseconds=1))

    performed = await deliver(
        receiver.url(), SECRET, insecure=True, client=make_client(tries=quick)
    )

    headers = [one.headers for one in receiver.received]
    assert performed.outcome == Succeeded(response_status=200)
    assert [one["webhook-timestamp"] for one in headers] == [
        "1764547200",
        "1764547201",
        "1764547202",
    ]
    assert len({one["webhook-signature"] for one in headers}) == 3
    assert len({one["webhook-id"] for one in headers}) == 1
    assert len({one.body for one in receiver.received}) == 1


@pytest.mark.parametrize(
    ("url", "secret", "error"),
    [
        ("/hook", None, "Url is no absolute http or https address."),
        ("", None, "Url is no absolute http or https address."),
        ("ftp://example.com/", None, "Url is no absolute http or https address."),
        ("{{data.Cost}}", None, "Url is no absolute http or https address."),
        ("http://example.com/", SECRET, "A signed webhook needs an https address."),
        ("https://example.com/", "whsec_x", "Secret is not one to three whsec_ secrets."),
        ("http://0x7f.1/a?b=c", None, "AddressRefused: 0x7f.1"),
        ("http://ann:pw@example.com/a", None, "AddressRefused: example.com"),
        ("http://10.0.0.1/a?b=c", None, "AddressRefused: [redacted]"),
        ("http:///hook", None, "AddressRefused: no host"),
    ],
)
async def test_what_cannot_be_sent_fails_for_good(deliver, url, secret, error):
    assert (await deliver(url, secret)).outcome == Failed(error)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:hunter2@/hook", "https://"),
        ("https://user:hunter2@:443/hook", "https://"),
        ("https://user:hunter2@[bad/", "https://"),
        ("https://user:hunter2@Host/hook", "https://Host"),
        ("https://user:hunter2@{{data.Empty}}/hook", "https://{{data.Empty}}"),
        ("http://10.0.0.1:8080/a?b=hunter2", "http://10.0.0.1:8080"),
    ],
)
async def test_a_password_in_an_address_is_in_no_row(deliver, url, told):
    performed = await deliver(url)

    (row,) = performed.deliveries
    assert row.url == told
    assert "hunter2" not in f"{row} {performed.outcome}"


async def test_a_blank_secret_is_none(receiver, deliver):
    assert (await deliver(receiver.url(), "  ")).outcome == Succeeded(response_status=200)
    assert "webhook-signature" not in receiver.received[0].headers


async def test_a_host_with_an_inward_address_fails_for_good(make_client, deliver):
    client = make_client(resolve=answers(hooks_example_com=["169.254.169.254"]))

    performed = await deliver("https://hooks.example.com/a?b=c", client=client)

    assert performed.outcome == Failed("AddressRefused: hooks.example.com")


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_a_good_answer_is_success(receiver, deliver, status):
    receiver.will(answer(status))

    assert (await deliver(receiver.url())).outcome == Succeeded(response_status=status)


@pytest.mark.parametrize(
    "status", [300, 301, 304, 308, 400, 405, 406, 410, 411, 413, 414, 415, 422, 501]
)
async def test_an_answer_that_will_not_change_fails_for_good(receiver, deliver, status):
    receiver.will(answer(status, headers=[("Location", receiver.url("/inside"))]))

    outcome = (await deliver(receiver.url())).outcome

    assert outcome == Failed(f"HTTP {status}", retryable=False, response_status=status)
    assert len(receiver.received) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 429, 500, 502, 503, 504, 599, 999])
async def test_any_other_answer_is_tried_again_later(receiver, deliver, status):
    receiver.will(answer(status))

    outcome = (await deliver(receiver.url())).outcome

    assert outcome == Failed(f"HTTP {status}", retryable=True, response_status=status)


async def test_no_answer_is_tried_again_later_and_names_the_kind_of_fault(
    secure_receiver, receiver, make_client, deliver
):
    async def hang(_writer):
        await asyncio.Event().wait()

    receiver.will(hang, close)
    client = make_client(tries=ONCE, resolve=answers(other_example_com=["127.0.0.1"]))

    async def error_of(url):
        outcome = (await deliver(url, client=client)).outcome
        assert outcome.retryable
        return outcome.error

    assert await error_of(receiver.url("/a?token=b")) == "Timeout"
    assert await error_of(receiver.url()) == "ConnectionLost"
    assert await error_of(secure_receiver.url(host="other.example.com")) == "TlsFailed"
    assert await error_of("http://127.0.0.1:1/") == "ConnectionFailed"


async def test_a_name_without_an_address_is_tried_again_later(make_client, deliver):
    client = make_client(tries=ONCE)

    outcome = (await deliver("https://nobody.invalid/", client=client)).outcome

    assert outcome == Failed("NameNotResolved", retryable=True)


async def test_an_open_breaker_is_tried_again_later_and_names_the_host(
    receiver, make_client, deliver
):
    client = make_client(tries=ONCE, breaker=BreakerRule(failures=1))
    receiver.will(answer(503))
    await deliver(receiver.url(host="localhost"), client=client)

    outcome = (await deliver(receiver.url("/a?b=c", host="localhost"), client=client)).outcome

    assert outcome == Failed("BreakerOpen: localhost", retryable=True)
    assert len(receiver.received) == 1
