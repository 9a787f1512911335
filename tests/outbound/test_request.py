"""The Request action: what it sends, what it makes of an answer, and what it gives away."""

import asyncio
import base64
import json
import threading
from datetime import timedelta

import pytest
from fix_actions import ARTICLE, Watched, an_attempt, an_entry
from fix_ledger import CLIENT_SECRET
from fix_receiver import answer, close, hang, raw
from fix_requests import ONCE, QUICK
from starlette.responses import JSONResponse

from procession.actions.base import Kept
from procession.actions.load import built_in, load
from procession.actions.logged import CUT_OFF
from procession.actions.perform import perform
from procession.engine.content_type import ContentType, Field
from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.queue.connectors import place_of
from procession.queue.sealing import Ring

KEY = "5f0c1d2e8a4b4c6d9e0f112233445566-0"
UP = ContentType({**ARTICLE.fields, "Up": Field(), "FarUp": Field(), "AskewUp": Field()})
UPWARD = "The path would lead up, out of where it is meant to stay."
BODY = '{"id":"{{id}}","title":{{data.Title}}}'


async def test_a_request_is_sent_as_it_is_stored(sender, receiver):
    await sender.connect(receiver.url("/v1"))
    await sender.keep(
        pathTemplate="/books/{{id}}?title={{data.Title}}",
        headerTemplates={"X-Title": "<{{data.Title}}>"},
        bodyTemplate=BODY,
    )

    performed = await sender.send(entry=an_entry(data={"Title": 'a/b "c"'}))

    (came,) = receiver.received
    assert performed.outcome == Succeeded(response_status=200)
    assert (came.method, came.path) == ("POST", "/v1/books/a-17?title=a%2Fb%20%22c%22")
    assert json.loads(came.body) == {"id": "a-17", "title": 'a/b "c"'}
    assert came.headers["x-title"] == '<a/b "c">'
    assert came.headers["content-type"] == "application/json"
    assert came.headers["idempotency-key"] == KEY
    assert "authorization" not in came.headers


async def test_a_long_request_is_filled_in_beside_the_loop(sender, receiver):
    await sender.connect(receiver.url())
    await sender.keep(bodyTemplate=BODY + " " * 20_000)
    data = Watched({"Title": "Hello"})

    assert (await sender.outcome(entry=an_entry(data=data))) == Succeeded(response_status=200)
    assert data.threads
    assert threading.main_thread() not in data.threads


async def test_a_number_may_have_as_many_digits_as_it_likes(sender, receiver):
    receiver.will(answer(200, b'{"total": 1' + b"0" * 5_000 + b"}"))
    await sender.connect(receiver.url())
    await sender.keep(success="TwoHundredAndJsonPathAbsent", successJsonPath="$.error")

    assert await sender.outcome() == Succeeded(response_status=200)


async def test_no_connection_is_shared_by_two_connectors_or_with_a_webhook(sender, receiver):
    await sender.connect(receiver.url("/ledger"))
    await sender.connect(receiver.url("/mill"), slug="mill")
    await sender.keep()
    await sender.keep("grind", connectorSlug="mill")

    for _ in range(2):
        await sender.outcome()
        await sender.outcome(slug="grind")
        hook = an_attempt("Webhook", {"Url": receiver.url("/hook")})
        client, limit = sender.clients[ONCE], timedelta(seconds=20)
        await perform(load(built_in(), []), hook, client=client, limit=limit)

    assert [one.connection for one in receiver.received] == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "came"),
    [
        ("//evil.example/{{id}}", "/v1//evil.example/a-17"),
        ("/@evil.example/..{{id}}", "/v1/@evil.example/..a-17"),
        ("/\\evil.example", "/v1/%5Cevil.example"),
        ("/bücher/neu e", "/v1/b%C3%BCcher/neu%20e"),
        ("/a:{{data.Title}}?to=https://evil.example", "/v1/a:Hello?to=https://evil.example"),
    ],
)
async def test_a_path_stays_where_the_connector_leads(sender, receiver, path, came):
    await sender.connect(receiver.url("/v1"))
    await sender.keep(pathTemplate=path)

    assert await sender.outcome() == Succeeded(response_status=200)
    assert receiver.received[0].path == came


PAIR = f"Basic {base64.b64encode('ann@x:p:ä'.encode()).decode()}"


@pytest.mark.parametrize(
    ("auth", "known", "header"),
    [
        ("Basic", {"settings": {"username": "ann@x"}, "secrets": {"password": "p:ä "}},
         ("authorization", PAIR)),
        ("BearerToken", {"secrets": {"token": "tok-1"}}, ("authorization", "Bearer tok-1")),
        ("ApiKeyHeader", {"settings": {"headerName": "X-Key"}, "secrets": {"apiKey": "k 1"}},
         ("x-key", "k 1")),
        ("None", {}, ("authorization", None)),
    ],
)  # fmt: skip
async def test_each_auth_is_shown_in_its_way(sender, receiver, auth, known, header):
    await sender.connect(receiver.url(), auth, **known)
    await sender.keep(headerTemplates={"x-KEY": "from the template"})

    await sender.send()

    assert receiver.received[0].headers.get(header[0]) == header[1]


@pytest.mark.parametrize(
    ("setting", "name"), [(None, "idempotency-key"), ("X-Once", "x-once"), ("off", None)]
)
async def test_the_key_goes_in_the_connectors_header(sender, receiver, setting, name):
    settings = {} if setting is None else {"idempotencyHeader": setting}
    await sender.connect(receiver.url(), settings=settings)
    await sender.keep(headerTemplates={"Idempotency-Key": "mine"})

    await sender.send()

    headers = receiver.received[0].headers
    assert [one for one, value in headers.items() if value == KEY] == ([name] if name else [])
    assert headers.get("idempotency-key") == (KEY if setting is None else "mine")


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"pathTemplate": "/{{data.Price}}"},
         "The path reads {{data.Price}}, which has no value that may leave."),
        ({"headerTemplates": {"X-A": "{{nope}}"}},
         "The header X-A reads {{nope}}, which has no value that may leave."),
        ({"bodyTemplate": '"{{data.Cost}}"'},
         "The body reads {{data.Cost}}, which has no value that may leave."),
        ({"headerTemplates": {"X-A": "{{data.Title}}"}},
         "The header X-A would hold what no header may."),
        ({"bodyTemplate": "{{data.Title}}, {"}, "The body is no valid JSON."),
        ({"bodyTemplate": "[NaN]"}, "The body is no valid JSON."),
        ({"pathTemplate": "/a/{{data.Up}}/b"}, UPWARD),
        ({"pathTemplate": "/a/{{data.FarUp}}"}, UPWARD),
        ({"pathTemplate": "/a/{{data.AskewUp}}/b"}, UPWARD),
        ({"pathTemplate": "/a/{{data.Up}}%2fb"}, UPWARD),
    ],
)  # fmt: skip
async def test_what_cannot_be_sent_fails_for_good_without_a_call(sender, receiver, request_, error):
    await sender.connect(receiver.url())
    await sender.keep(**request_)

    ups = {"Up": "..", "FarUp": "b/../../admin", "AskewUp": "..\\admin"}
    data = {"Title": "a\r\nX-Evil: 1", **ups, "Price": 7, "Cost": 3}
    outcome = await sender.outcome(entry=an_entry(data=data), defined=UP)

    assert outcome == Failed(error)
    assert receiver.received == []


async def test_a_request_that_is_not_there_or_switched_off_fails_for_good(sender, receiver):
    nothing = await sender.outcome()
    await sender.connect(receiver.url(), enabled=False)
    await sender.keep()
    off = await sender.outcome()

    assert nothing == Failed("There is no request book.")
    assert off == Failed("The connector ledger is switched off.")


async def test_a_secret_that_no_key_opens_or_that_is_missing_is_to_be_entered(
    sender, receiver, conn
):
    await sender.connect(receiver.url(), "BearerToken", secrets={"token": "tok-1"})
    await sender.keep()
    other = Ring({"tests": bytes(32)}).seal("tok-1", place_of("default", "ledger", "token"))
    await conn.execute(
        "update connector set secrets = jsonb_build_object('token', %s::text)", [other]
    )
    unreadable = await sender.outcome()
    await conn.execute("update connector set secrets = '{}'")
    missing = await sender.outcome()

    assert unreadable == Failed(
        "A secret of the connector ledger cannot be read by any key of this worker: enter it again."
    )
    assert missing == Failed("Enter the token of the connector: it has none.")
    assert receiver.received == []


@pytest.mark.parametrize(
    ("status", "retryable"), [(201, None), (302, False), (404, True), (422, False), (500, True)]
)
async def test_a_status_means_what_it_means_for_a_webhook(sender, receiver, status, retryable):
    receiver.will(answer(status))
    await sender.connect(receiver.url())
    await sender.keep()

    outcome = await sender.outcome()

    if retryable is None:
        assert outcome == Succeeded(response_status=status)
    else:
        assert outcome == Failed(f"HTTP {status}", retryable, status)


LONG = b'{"a":"' + b"x" * 270_000 + b'"}'


@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (answer(200, b'{"ok":true}'), Succeeded(response_status=200)),
        (answer(200, b'{"errors":[1]}'), Failed("The answer holds $.errors.", True, 200)),
        (answer(200, b'{"errors":null}'), Failed("The answer holds $.errors.", True, 200)),
        (answer(200, b"<html>"), Failed("The answer is no JSON.", True, 200)),
        (answer(204), Failed("The answer is no JSON.", True, 204)),
        (answer(200, LONG),
         Failed("The answer is too long to look for what it must not hold.", False, 200)),
        (answer(503, LONG), Failed("HTTP 503", True, 503)),
        (answer(422, b"{"), Failed("HTTP 422", False, 422)),
    ],
)  # fmt: skip
async def test_a_body_may_have_the_last_word(sender, receiver, act, outcome):
    receiver.will(act)
    await sender.connect(receiver.url())
    await sender.keep(success="TwoHundredAndJsonPathAbsent", successJsonPath="$.errors")

    assert await sender.outcome() == outcome


async def test_any_answer_may_do(sender, receiver):
    receiver.will(answer(500))
    await sender.connect(receiver.url())
    await sender.keep(success="AnyResponse")

    assert await sender.outcome() == Succeeded(response_status=500)


CUT = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


async def cut(writer):
    await CUT(writer)
    writer.close()


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize(
    "came",
    [(hang, "Timeout", None), (close, "ConnectionLost", None), (cut, "ConnectionLost", 200)],
)
async def test_without_an_answer_what_may_have_happened_is_unknown(sender, receiver, method, came):
    act, kind, status = came
    receiver.will(act)
    await sender.connect(receiver.url(), settings={"idempotencyHeader": "off"})
    await sender.keep(
        method=method, success="TwoHundredAndJsonPathAbsent", successJsonPath="$.errors"
    )

    performed = await sender.send()

    assert performed.outcome == Unknown(kind, status)
    assert [row.response_status for row in performed.deliveries] == [status]


@pytest.mark.parametrize(
    ("method", "header"), [("POST", "Idempotency-Key"), ("PUT", "off"), ("DELETE", "off")]
)
async def test_without_an_answer_what_is_repeatable_is_tried_again(
    sender, receiver, method, header
):
    receiver.will(hang)
    await sender.connect(receiver.url(), settings={"idempotencyHeader": header})
    await sender.keep(method=method)

    assert await sender.outcome() == Failed("Timeout", retryable=True)


async def test_what_never_left_is_tried_again_and_a_refused_address_never(
    sender, receiver, make_client
):
    await receiver.stop()
    await sender.connect(receiver.url(), settings={"idempotencyHeader": "off"})
    await sender.keep()
    closed = await sender.outcome()
    sender.clients.clear()
    sender.make_client = lambda **more: make_client((), **more)
    refused = await sender.outcome()

    assert closed == Failed("ConnectionFailed", retryable=True)
    assert refused == Failed("AddressRefused: [redacted]")


async def test_tries_carry_the_key_and_the_same_bytes(sender, receiver):
    receiver.will(close, answer(504))
    await sender.connect(receiver.url(), settings={"idempotencyHeader": "X-Once"})
    await sender.keep(bodyTemplate=BODY)

    outcome = await sender.outcome(tries=QUICK)

    assert outcome == Succeeded(response_status=200)
    assert len({(one.body, one.headers["x-once"]) for one in receiver.received}) == 1
    assert len(receiver.received) == 3


async def test_an_oauth_protected_api_is_called_with_a_token_that_is_asked_for_once(sender, ledger):
    await sender.oauth(ledger, scope="books")
    await sender.keep()

    outcomes = [await sender.outcome() for _ in range(3)]

    assert outcomes == [Succeeded(response_status=200)] * 3
    assert len(ledger.grants) == 1
    assert len(ledger.booked) == 3


async def test_a_token_that_has_grown_old_is_asked_for_anew_and_the_request_resent(sender, ledger):
    await sender.oauth(ledger)
    await sender.keep()
    await sender.send()
    ledger.revoke()
    sender.clock.now += 60

    performed = await sender.send()

    assert performed.outcome == Succeeded(response_status=200)
    assert len(ledger.grants) == 2
    assert len(ledger.booked) == 3
    (row,) = performed.deliveries
    assert (row.requests_sent, row.response_status) == (2, 200)


async def _breaks_off(writer):
    writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 50\r\n\r\n{")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    "refusal",
    [answer(401, b"{}"), _breaks_off, answer(401, b"x" * 300_000)],
    ids=["whole", "broken off", "too long"],
)
async def test_a_token_has_grown_old_whatever_the_body_of_the_401(sender, receiver, refusal):
    said = [{"access_token": one, "expires_in": 3600} for one in ("old", "new")]
    tokens = [answer(200, json.dumps(one).encode()) for one in said]
    good = answer(200, b"{}")
    receiver.will(tokens[0], good, refusal, tokens[1], good)
    known = {"tokenUrl": receiver.url("/token"), "clientId": "c"}
    secrets = {"clientSecret": CLIENT_SECRET}
    auth = "OAuth2ClientCredentials"
    await sender.connect(receiver.url(), auth, settings=known, secrets=secrets)
    await sender.keep(success="TwoHundredAndJsonPathAbsent", successJsonPath="$.error")
    await sender.outcome()
    sender.clock.now += 60

    assert await sender.outcome() == Succeeded(response_status=200)
    calls = [(one.path, one.headers["authorization"]) for one in receiver.received]
    assert [path for path, _ in calls] == ["/token", "/books", "/books", "/token", "/books"]
    assert calls[-1] == ("/books", "Bearer new")


async def test_any_other_401_is_the_answer(sender, ledger):
    await sender.oauth(ledger)
    await sender.keep()
    await sender.send()
    ledger.revoke()
    sender.clock.now += 59

    young = await sender.outcome()
    sender.clock.now += 1
    ledger.answer = JSONResponse({}, 401)
    refused_again = await sender.outcome()

    assert young == refused_again == Failed("HTTP 401", True, 401)
    assert len(ledger.grants) == 2
    assert len(ledger.booked) == 4


async def test_a_changed_connector_uses_no_token_from_before(sender, ledger):
    await sender.oauth(ledger)
    await sender.keep()
    await sender.send()

    await sender.oauth(ledger, scope="other")
    await sender.send()

    assert [one.get("scope") for one in ledger.grants] == [None, "other"]


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        (({"error": "invalid_scope"}, 400),
         Failed("No token was granted: HTTP 400 invalid_scope.")),
        (({"error": "server_error"}, 503), Failed("No token was granted: HTTP 503.", True)),
    ],
)  # fmt: skip
async def test_a_refused_grant_is_the_requests_failure(sender, ledger, refusal, outcome):
    ledger.refusal = JSONResponse(*refusal)
    await sender.oauth(ledger)
    await sender.keep()

    performed = await sender.send()

    assert performed.outcome == outcome
    assert ledger.booked == []
    (row,) = performed.deliveries
    assert (row.error, row.response_status, row.requests_sent) == (outcome.error, None, 0)
    assert (row.url, row.request_slug) == (ledger.url, "book")


async def test_a_grant_that_is_refused_after_a_token_was_is_in_the_row_of_the_refusal(
    sender, ledger
):
    await sender.oauth(ledger)
    await sender.keep()
    await sender.send()
    ledger.revoke()
    ledger.refusal = JSONResponse({"error": "server_error"}, 503)
    sender.clock.now += 60

    (row,) = (await sender.send()).deliveries

    assert row.error == "No token was granted: HTTP 503."
    assert (row.response_status, row.requests_sent) == (401, 1)


async def test_a_token_that_is_inside_is_refused_and_the_row_names_where_the_request_was_to_go(
    sender, ledger
):
    await sender.oauth(ledger, tokenUrl="https://10.0.0.7/token")
    await sender.keep()

    performed = await sender.send()

    assert performed.outcome == Failed("AddressRefused: [redacted]")
    assert [(row.url, row.requests_sent) for row in performed.deliveries] == [(ledger.url, 0)]


async def test_a_grant_that_is_cut_off_leaves_its_row(sender, ledger):
    ledger.gate.clear()
    await sender.oauth(ledger)
    await sender.keep()
    kept = Kept()

    sending = asyncio.create_task(sender.send(kept=kept))
    await ledger.asked.wait()
    sending.cancel()
    await asyncio.wait({sending})

    assert [row.error for row in kept.deliveries] == [CUT_OFF]


async def test_no_secret_that_was_used_is_left_in_what_is_kept(sender, ledger):
    await sender.oauth(ledger)
    await sender.keep(headerTemplates={"X-Plain": "plain"})

    performed = await sender.send()

    (row,) = performed.deliveries
    (token,) = ledger.given
    text = repr(performed)
    assert token not in text
    assert CLIENT_SECRET not in text
    assert row.response_body.count("[redacted]") == 2
    assert row.request_headers["Authorization"] == "[redacted]"
    assert row.request_headers["X-Plain"] == "plain"
    assert (row.connector_slug, row.request_slug) == ("ledger", "book")
