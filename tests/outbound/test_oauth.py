"""Tokens by client credentials, from a server that really grants them."""

import asyncio

import pytest
from fix_ledger import CLIENT_ID, CLIENT_SECRET
from fix_receiver import answer, hang
from starlette.responses import JSONResponse, Response

from procession.outbound import oauth
from procession.outbound.faults import AddressRefused
from procession.outbound.oauth import Grant, GrantError, Token, Tokens, ask


@pytest.fixture
def client(make_client):
    return make_client().of("default")


def grant(ledger, **changes):
    given = {
        "url": f"{ledger.url}/token",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }
    return Grant(**given | changes)


@pytest.mark.parametrize("in_body", [False, True])
async def test_a_token_is_granted_to_who_shows_who_he_is(ledger, client, in_body):
    token = await ask(client, grant(ledger, in_body=in_body, scope="a b", audience="books"))

    (form,) = ledger.grants
    assert token.text in ledger.valid
    assert (form["grant_type"], form["scope"], form["audience"]) == (
        "client_credentials",
        "a b",
        "books",
    )
    assert ("client_secret" in form) is in_body


@pytest.mark.parametrize(
    ("said", "life"),
    [
        (3600, 3570.0),
        (86_400, 3570.0),
        (50, 25.0),
        ("120", 90.0),
        (None, 60.0),
        (0, 0.0),
        (-5, 0.0),
        (True, 60.0),
        ("soon", 60.0),
    ],
)
async def test_it_is_kept_for_less_than_it_is_good(ledger, client, said, life):
    ledger.expires_in = said

    assert (await ask(client, grant(ledger))).life == life


@pytest.mark.parametrize(
    ("said", "life"),
    [
        ("1" + "0" * 400, 3570.0),
        ("1" + "0" * 5000, 3570.0),
        ("1e400", 3570.0),
        ("3600.5", 3570.0),
        ("0.5", 0.25),
        ("-1" + "0" * 400, 0.0),
        ("-1e400", 0.0),
        ("NaN", 60.0),
        ("Infinity", 60.0),
        ("-Infinity", 60.0),
        (f'"{"9" * 5000}"', 3570.0),
        ('"000000000000120"', 90.0),
        ('"1e3"', 60.0),
        ("true", 60.0),
        ("false", 60.0),
        ("[]", 60.0),
    ],
)
async def test_whatever_number_is_said_it_is_kept_an_hour_at_most(ledger, client, said, life):
    token = f'{{"access_token": "tok", "token_type": "bearer", "expires_in": {said}}}'
    ledger.refusal = Response(token, media_type="application/json")

    assert (await ask(client, grant(ledger))).life == life


@pytest.mark.parametrize(
    ("refusal", "reason", "final"),
    [
        ((400, {"error": "invalid_scope"}), "HTTP 400 invalid_scope", True),
        ((400, {"error": "unauthorized_client"}), "HTTP 400 unauthorized_client", True),
        ((400, {"error": "unsupported_grant_type"}), "HTTP 400 unsupported_grant_type", True),
        ((401, {"error": "invalid_client"}), "HTTP 401 invalid_client", True),
        ((400, {"error": "invalid_request"}), "HTTP 400 invalid_request", False),
        ((400, {"error": "invalid_grant"}), "HTTP 400 invalid_grant", False),
        ((400, {"error": "hunter2"}), "HTTP 400", False),
        ((400, {"error": ["invalid_client"]}), "HTTP 400", False),
        ((500, "hunter2"), "HTTP 500", False),
        ((302, {}), "HTTP 302", False),
        ((200, {"token": "hunter2"}), "the answer holds none", False),
        ((200, {"access_token": "a\nb"}), "the answer holds none", False),
        ((200, {"access_token": ""}), "the answer holds none", False),
        ((200, ["hunter2"]), "the answer holds none", False),
        ((200, {"access_token": "t", "token_type": "mac"}), "it is of a type that is not Bearer",
         False),
    ],
)  # fmt: skip
async def test_of_a_refusal_only_the_standards_codes_are_repeated(
    ledger, client, refusal, reason, final
):
    ledger.refusal = JSONResponse(refusal[1], refusal[0])

    with pytest.raises(GrantError) as refused:
        await ask(client, grant(ledger))

    assert str(refused.value) == f"No token was granted: {reason}."
    assert refused.value.final is final


async def test_a_wrong_secret_is_final_and_not_repeated(ledger, client):
    with pytest.raises(GrantError) as refused:
        await ask(client, grant(ledger, client_secret="other"))

    assert str(refused.value) == "No token was granted: HTTP 401 invalid_client."


async def test_what_is_no_json_or_too_long_is_no_grant(ledger, client):
    for content, reason in (
        (b"<html>", "the answer holds none"),
        (b" " * 70_000, "AnswerTooLarge"),
    ):
        ledger.refusal = Response(content)

        with pytest.raises(GrantError, match=reason):
            await ask(client, grant(ledger))


async def test_a_grant_has_a_deadline_of_its_own(receiver, client, ledger, monkeypatch):
    monkeypatch.setattr(oauth, "DEADLINE", 0.2)
    receiver.will(hang)

    with pytest.raises(GrantError, match="Timeout"):
        await ask(client, grant(ledger, url=receiver.url("/token")))


async def test_a_busy_server_is_asked_again(receiver, client, ledger):
    receiver.will(answer(503), answer(200, b'{"access_token": "t"}'))

    assert (await ask(client, grant(ledger, url=receiver.url("/token")))).text == "t"


async def test_the_guard_is_before_the_server_of_tokens_too(ledger, make_client):
    with pytest.raises(AddressRefused):
        await ask(make_client(()).of("default"), grant(ledger))


async def test_many_wait_for_one_grant(ledger, client, clock):
    tokens = Tokens(clock)
    ledger.gate.clear()
    waiting = [
        asyncio.create_task(tokens.granted("key", lambda: ask(client, grant(ledger))))
        for _ in range(20)
    ]
    await ledger.asked.wait()

    ledger.gate.set()
    came = await asyncio.gather(*waiting)

    assert len({one.text for one in came}) == 1
    assert len(ledger.grants) == 1
    assert tokens.kept("key") is came[0]


async def test_many_share_a_failure_and_the_next_one_asks_anew(ledger, client):
    tokens = Tokens()
    ledger.refusal = JSONResponse({}, 500)
    ledger.gate.clear()
    waiting = [
        asyncio.create_task(tokens.granted("key", lambda: ask(client, grant(ledger))))
        for _ in range(3)
    ]
    await ledger.asked.wait()
    ledger.gate.set()
    came = await asyncio.gather(*waiting, return_exceptions=True)
    ledger.refusal = None

    assert [type(one) for one in came] == [GrantError] * 3
    assert (await tokens.granted("key", lambda: ask(client, grant(ledger)))).text in ledger.valid
    assert len(ledger.grants) == 2


async def test_one_that_is_cancelled_leaves_the_grant_to_the_others(ledger, client):
    tokens = Tokens()
    ledger.gate.clear()
    first, second = (
        asyncio.create_task(tokens.granted("key", lambda: ask(client, grant(ledger))))
        for _ in range(2)
    )
    await ledger.asked.wait()

    first.cancel()
    ledger.gate.set()

    assert (await second).text in ledger.valid
    assert first.cancelled() or first.cancelling()


async def test_a_grant_that_nobody_waits_for_is_given_up(ledger, client):
    tokens = Tokens()
    ledger.gate.clear()
    only = asyncio.create_task(tokens.granted("key", lambda: ask(client, grant(ledger))))
    await ledger.asked.wait()
    only.cancel()
    await asyncio.gather(only, return_exceptions=True)

    ledger.gate.set()
    token = await tokens.granted("key", lambda: ask(client, grant(ledger)))

    assert token.text in ledger.valid
    assert len(ledger.grants) == 2


async def test_a_token_is_kept_while_it_may_be_used(clock):
    tokens = Tokens(clock)

    async def give():
        return Token("t", 90.0)

    token = await tokens.granted("key", give)

    assert (tokens.kept("key"), tokens.kept("other")) == (token, None)
    assert not tokens.is_old(token)
    clock.now += 60
    assert tokens.is_old(token)
    clock.now += 29
    assert tokens.kept("key") is token
    clock.now += 1
    assert tokens.kept("key") is None


async def test_only_the_token_that_was_refused_is_dropped(clock):
    tokens = Tokens(clock)

    async def give():
        return Token("t", 90.0)

    first = await tokens.granted("key", give)
    second = await tokens.granted("key", give)
    tokens.drop("key", first)

    assert tokens.kept("key") is second
    tokens.drop("key", second)
    assert tokens.kept("key") is None


async def test_those_used_longest_ago_are_forgotten():
    tokens = Tokens()

    async def give():
        return Token("t", 90.0)

    for number in range(oauth.KEPT):
        await tokens.granted(number, give)
    assert tokens.kept(0)
    await tokens.granted("one more", give)

    assert [tokens.kept(one) is None for one in (0, 1, 2, "one more")] == [
        False,
        True,
        False,
        False,
    ]
