"""Tokens of an identity provider: which are believed, and what it takes to have its keys."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from contextlib import suppress

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fix_issuer import AUDIENCE, KEYS, METADATA, ec_signer, page, rsa_signer
from fix_receiver import answer, drip, hang, redirect, reset

from procession.outbound import public_keys
from procession.outbound.oidc import RefusedTokenError
from procession.outbound.public_keys import FRESH, MOST, REST, SEEK, USABLE, KeysAwayError
from procession.outbound.retry import Tries

ONCE = Tries(retries=0)


async def is_refused(issuer, token):
    with pytest.raises(RefusedTokenError):
        await issuer.claims(token)
    return True


async def is_away(issuer, token):
    with pytest.raises(KeysAwayError):
        await issuer.claims(token)
    return True


def part(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "signer",
    [
        *(rsa_signer("k", one) for one in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        *(ec_signer("k", one) for one in ("ES256", "ES384", "ES512")),
    ],
    ids=lambda signer: signer.algorithm,
)
async def test_a_token_that_the_issuer_signed_is_believed(provider, issuer, signer):
    provider.publish(signer)

    claims = await issuer.claims(provider.token(signer, extra=[1]))

    assert (claims["sub"], claims["extra"]) == ("u-7", [1])


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize(
    "said", ["1e400", "-1e400", "NaN", "9" * 400, "9" * 5000, '"9"', "[]", "{}", "null", "true"]
)
async def test_times_that_are_none_are_no_reason_to_stumble(provider, issuer, name, said):
    signer = provider.keys[0]
    claims = json.dumps({"iss": provider.issuer, "aud": AUDIENCE, "sub": "u-7"})
    exp = "" if name == "exp" else f', "exp": {int(time.time()) + 60}'
    payload = f'{claims[:-1]}{exp}, "{name}": {said}}}'.encode()
    token = jwt.api_jws.encode(payload, signer.private, signer.algorithm, {"kid": signer.id})

    with suppress(RefusedTokenError):
        assert (await issuer.claims(token))["sub"] == "u-7"


@pytest.mark.parametrize("said", ["9" * 5000, "[" * 40_000, '{"a":' * 9_000, '"' + "\\ud800" + '"'])
async def test_a_header_that_is_odd_is_refused(provider, issuer, said):
    for header in (f'{{"alg": "RS256", "kid": {said}}}', f'{{"alg": {said}}}', said):
        assert await is_refused(issuer, f"{part(header.encode())}.{part({})}.{part(b'x')}")
    assert provider.fetches <= 2


async def test_keys_are_asked_for_once_and_kept(provider, issuer):
    for signer in provider.keys * 3:
        await issuer.claims(provider.token(signer))

    assert [one.path for one in provider.site.received] == [METADATA, KEYS]
    assert provider.site.received[0].sni == "login.example.com"


async def test_many_who_come_at_once_wait_for_one_fetch(provider, issuer):
    token = provider.token()

    claims = await asyncio.gather(*(issuer.claims(token) for _ in range(20)))

    assert len(claims) == 20
    assert provider.fetches == 1


async def test_one_who_leaves_takes_the_keys_from_nobody(provider, issuer):
    first = asyncio.create_task(issuer.claims(provider.token()))
    await provider.site.next()
    second = asyncio.create_task(issuer.claims(provider.token()))
    await asyncio.sleep(0)
    first.cancel()

    assert (await second)["sub"] == "u-7"
    assert provider.fetches == 1


class After(float):
    """So many seconds from when the test runs."""


def said_now(claims):
    return {
        name: int(time.time() + value) if isinstance(value, After) else value
        for name, value in claims.items()
    }


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": None},
        {"iss": "https://login.example.com"},
        {"iss": ["https://login.example.com"]},
        {"aud": None},
        {"aud": "another"},
        {"aud": ["another", "procession2"]},
        {"aud": []},
        {"aud": {"procession": 1}},
        {"exp": None},
        {"exp": After(-120)},
        {"exp": "soon"},
        {"exp": True},
        {"exp": float("inf")},
        {"nbf": After(3600)},
        {"nbf": "soon"},
        {"sub": None},
        {"sub": 7},
    ],
    ids=str,
)
async def test_what_the_claims_must_say_is_looked_at(provider, issuer, claims):
    assert await is_refused(issuer, provider.token(**said_now(claims)))


async def test_an_issuer_is_compared_to_the_letter(provider, issuer):
    for other in ("/", "#", "x", " "):
        assert await is_refused(issuer, provider.token(iss=provider.issuer + other))
    assert await is_refused(issuer, provider.token(iss=provider.issuer.upper()))


@pytest.mark.parametrize(
    "claims",
    [{"exp": After(-30)}, {"nbf": After(30)}, {"iat": After(9999)}, {"aud": ["x", AUDIENCE]}],
)
async def test_clocks_may_differ_by_a_minute_and_a_token_may_be_for_others_too(
    provider, issuer, claims
):
    assert (await issuer.claims(provider.token(**said_now(claims))))["sub"] == "u-7"


async def test_a_token_that_nobody_signed_is_refused_without_a_fetch(provider, issuer):
    said = part(
        {"iss": provider.issuer, "aud": AUDIENCE, "sub": "u-7", "exp": int(time.time()) + 300}
    )
    for alg in (
        "none",
        "None",
        "NONE",
        "",
        None,
        7,
        ["RS256"],
        "HS256",
        "HS512",
        "EdDSA",
        "ES256K",
    ):
        assert await is_refused(issuer, f"{part({'alg': alg, 'kid': 'one'})}.{said}.")
        assert await is_refused(issuer, f"{part({'alg': alg, 'kid': 'one'})}.{said}.AAAA")

    assert provider.site.received == []


async def test_the_public_key_is_no_secret_that_signs(provider, issuer):
    await issuer.claims(provider.token())
    public = provider.keys[0].private.public_key()
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(provider.keys[0].jwk()).encode(),
    ):
        for alg in ("HS256", "RS256"):
            said = f"{part({'alg': alg, 'kid': 'one'})}.{part({'iss': provider.issuer})}"
            signed = hmac.new(secret, said.encode(), hashlib.sha256).digest()
            assert await is_refused(issuer, f"{said}.{part(signed)}")


async def test_a_key_signs_by_its_own_algorithms_only(provider, issuer):
    only = rsa_signer("only")
    provider.publish(only.jwk(alg="RS512"), provider.keys[1].jwk(kid="curve"))
    _, claims, signature = provider.token(only).split(".")

    assert await is_refused(issuer, provider.token(only))
    for alg in ("RS512", "PS256", "ES256"):
        assert await is_refused(issuer, f"{part({'alg': alg, 'kid': 'only'})}.{claims}.{signature}")
    assert await is_refused(
        issuer, f"{part({'alg': 'RS256', 'kid': 'curve'})}.{claims}.{signature}"
    )


async def test_a_token_is_bound_to_its_key_and_its_words(provider, issuer):
    head, claims, signature = provider.token().split(".")
    other = part(
        {"iss": provider.issuer, "aud": AUDIENCE, "sub": "root", "exp": int(time.time()) + 300}
    )
    stranger = rsa_signer("one")

    assert await is_refused(issuer, f"{head}.{other}.{signature}")
    assert await is_refused(issuer, provider.token(stranger))
    assert await is_refused(
        issuer,
        provider.token(stranger, headers={"jwk": stranger.jwk(), "jku": "https://a.example"}),
    )
    assert await is_refused(issuer, f"{head}.{claims}.")
    assert await is_refused(issuer, f"{head}.{claims}.{signature}.{signature}")
    assert {one.path for one in provider.site.received} == {METADATA, KEYS}


async def test_what_a_token_says_is_critical_is_not_understood(provider, issuer):
    _, claims, _ = provider.token().split(".")
    for head in ({}, {"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}):
        said = f"{part({'alg': 'RS256', 'kid': 'one', **head})}.{claims}"
        signature = provider.keys[0].private.sign(said.encode(), PKCS1v15(), SHA256())
        token = f"{said}.{part(signature)}"
        assert await is_refused(issuer, token) if head else await issuer.claims(token)


@pytest.mark.parametrize(
    "token",
    [
        "a.b.c",
        "..",
        f"{part(b'[]')}.{part(b'{}')}.AAAA",
        f"{part(b'{' * 20_000)}.{part(b'{}')}.AAAA",
        f"{part(b'[' * 20_000)}.{part(b'{}')}.AAAA",
        f"{part(b'{')}.{part(b'{}')}.AAAA",
        f"{part(bytes(range(256)))}.{part(b'{}')}.AAAA",
        f"{part({'alg': 'RS256', 'kid': ['one']})}.{part(b'{}')}.AAAA",
        f"{part({'alg': 'RS256', 'kid': {}})}.{part(b'{}')}.AAAA",
        f"{part({'alg': 'RS256'})}.{part(b'{}')}.AAAA",
        f"{part({'alg': 'RS256', 'kid': 'one'})}.{part(b'[' * 20_000)}.AAAA",
        "a" * 70_000,
    ],
    ids=lambda token: token[:20],
)
async def test_nonsense_is_refused(issuer, token):
    assert await is_refused(issuer, token)


async def test_the_longest_token_is_64_kib(provider, issuer):
    bare = len(provider.token(pad=""))
    fits = (65_536 - bare) * 3 // 4 - 3

    assert (await issuer.claims(provider.token(pad="x" * fits)))["sub"] == "u-7"
    assert await is_refused(issuer, provider.token(pad="x" * (fits + 20)))


async def test_a_token_without_the_name_of_a_key_is_of_the_only_one(provider, make_issuer):
    nameless = rsa_signer(None)
    provider.publish(nameless)
    assert (await make_issuer().claims(provider.token(nameless)))["sub"] == "u-7"

    provider.publish(nameless, provider.keys[1])
    assert await is_refused(make_issuer(), provider.token(nameless))


async def test_keys_that_are_of_no_use_are_left_aside(provider, issuer):
    good, weak = provider.keys[0], rsa_signer("weak", bits=1024)
    provider.publish(
        weak,
        good.jwk(kid="enc", use="enc"),
        good.jwk(kid="oaep", alg="RSA-OAEP"),
        good.jwk(kid="mac", alg="HS256"),
        good.jwk(kid="list", alg=["RS256"]),
        good.jwk(kid="private", d="AQAB"),
        {"kty": "oct", "kid": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
        {"kty": "OKP", "kid": "okp", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMl"},
        {"kty": "RSA", "kid": "broken", "n": 7, "e": "AQAB"},
        {"kty": "EC", "kid": "short", "crv": "P-256", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "kid": "off", "crv": "P-256", "x": "A" * 43, "y": "A" * 43},
        {"kty": ["RSA"]},
        {},
        7,
        None,
        good,
    )

    assert (await issuer.claims(provider.token()))["sub"] == "u-7"
    for name in ("enc", "oaep", "mac", "list", "private", "broken"):
        assert await is_refused(issuer, provider.token(headers={"kid": name}))
    with pytest.warns(match="key"):
        token = provider.token(weak)
    assert await is_refused(issuer, token)


async def test_a_new_key_is_found_and_a_withdrawn_one_is_not_believed(provider, issuer):
    await issuer.claims(provider.token())
    new = ec_signer("new")
    provider.publish(new)

    assert (await issuer.claims(provider.token(new)))["sub"] == "u-7"
    assert await is_refused(issuer, provider.token())


async def test_made_up_names_of_keys_lead_to_a_fetch_every_five_minutes(provider, issuer):
    await issuer.claims(provider.token())
    for number in range(50):
        assert await is_refused(issuer, provider.token(headers={"kid": f"k{number}"}))
    assert provider.fetches == 2

    provider.now += SEEK
    await asyncio.gather(
        *(is_refused(issuer, provider.token(headers={"kid": f"k{number}"})) for number in range(50))
    )
    assert provider.fetches == 3
    assert (await issuer.claims(provider.token()))["sub"] == "u-7"


async def test_keys_are_fetched_anew_after_an_hour(provider, issuer):
    await issuer.claims(provider.token())
    provider.now += FRESH - 1
    await issuer.claims(provider.token())
    assert provider.fetches == 1

    provider.now += 1
    await issuer.claims(provider.token())
    assert provider.fetches == 2


async def test_old_keys_serve_four_hours_while_the_issuer_is_away(provider, make_issuer):
    issuer = make_issuer(tries=ONCE)
    await issuer.claims(provider.token())
    provider.site.pages.clear()

    provider.now += FRESH
    assert (await issuer.claims(provider.token()))["sub"] == "u-7"
    assert await is_away(issuer, provider.token(headers={"kid": "perhaps-new"}))
    provider.now += USABLE - FRESH - 1
    assert (await issuer.claims(provider.token()))["sub"] == "u-7"
    provider.now += 1
    assert await is_away(issuer, provider.token())

    provider.publish(*provider.keys)
    provider.now += REST
    assert (await issuer.claims(provider.token()))["sub"] == "u-7"


async def test_after_a_failure_it_rests_for_half_a_minute(provider, make_issuer, caplog):
    issuer = make_issuer(tries=ONCE)
    provider.site.pages.clear()

    for _ in range(10):
        assert await is_away(issuer, provider.token())
    assert len(provider.site.received) == 1
    provider.now += REST
    assert await is_away(issuer, provider.token())

    assert len(provider.site.received) == 2
    assert (
        caplog.messages
        == ["The keys of the issuer (AUTH__OIDC__ISSUER) were not had: HTTP 404"] * 2
    )


BIG = b'{"keys": [' + b" " * 262_145


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ({METADATA: page({"jwks_uri": "https://login.example.com/keys"})}, "another issuer"),
        ({METADATA: page({"issuer": "https://evil.example"})}, "another issuer"),
        ({METADATA: page([])}, "no JSON object"),
        ({METADATA: page(b"<html>")}, "no JSON object"),
        ({METADATA: page(b"[" * 100_000)}, "no JSON object"),
        ({METADATA: page(b"\xff\xfe")}, "no JSON object"),
        ({METADATA: redirect("https://169.254.169.254/")}, "HTTP 302"),
        ({METADATA: answer(500, b"hunter2")}, "HTTP 500"),
        ({METADATA: page(BIG)}, "AnswerTooLarge: login.example.com"),
        ({METADATA: drip(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65_536, 0)}, "AnswerTooLarge"),
        ({METADATA: reset}, "ConnectionLost"),
        ({KEYS: page({})}, "no list"),
        ({KEYS: page({"keys": {}})}, "no list"),
        ({KEYS: page({"keys": [{}] * (MOST + 1)})}, "more than 50"),
        ({KEYS: page(BIG)}, "AnswerTooLarge"),
        ({KEYS: redirect("http://127.0.0.1/keys")}, "HTTP 302"),
    ],
)
async def test_an_issuer_that_answers_oddly_is_out_of_reach(
    provider, make_issuer, caplog, pages, reason
):
    provider.site.pages |= pages

    assert await is_away(make_issuer(tries=ONCE), provider.token())
    assert reason in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://login.example.com/keys", "not https"),
        ("file:///etc/passwd", "not https"),
        ("https://169.254.169.254/latest", "AddressRefused: 169.254.169.254"),
        ("https://10.0.0.1/keys", "AddressRefused: 10.0.0.1"),
        ("https://[::ffff:10.0.0.1]/keys", "AddressRefused"),
        ("https://user:hunter2@login.example.com/keys", "AddressRefused: login.example.com"),
        (7, "jwks_uri"),
        (None, "jwks_uri"),
    ],
)
async def test_its_keys_are_not_fetched_from_anywhere(
    provider, make_issuer, caplog, address, reason
):
    provider.publish(metadata={"issuer": provider.issuer, "jwks_uri": address})

    assert await is_away(make_issuer(tries=ONCE), provider.token())
    assert reason in caplog.text
    assert "hunter2" not in caplog.text


async def test_the_issuer_itself_may_not_lie_inside(provider, make_issuer):
    assert await is_away(make_issuer(allowed=()), provider.token())

    assert provider.site.connections == 0


async def test_an_issuer_must_prove_its_name(provider, make_issuer):
    other = provider.issuer.replace("login", "other")
    resolver = {"resolve": _anywhere}

    assert await is_away(make_issuer(other, tries=ONCE, **resolver), provider.token())
    assert provider.site.received == []


async def _anywhere(_host):
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    "act", [hang, drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n", b" ", 0.05)]
)
async def test_a_slow_issuer_is_waited_for_so_long_and_no_longer(
    provider, issuer, monkeypatch, act, caplog
):
    monkeypatch.setattr(public_keys, "DEADLINE", 0.3)
    provider.site.pages[METADATA] = act
    began = time.monotonic()

    assert await is_away(issuer, provider.token())

    assert time.monotonic() - began < 3
    assert "Timeout" in caplog.text


async def test_a_slow_issuer_holds_up_nobody_whose_key_is_known(provider, issuer):
    await issuer.claims(provider.token())
    provider.site.pages[METADATA] = hang
    provider.now += FRESH
    slow = asyncio.create_task(issuer.claims(provider.token()))
    while provider.site.received[-1].path != METADATA or len(provider.site.received) < 3:
        await provider.site.next()

    async with asyncio.timeout(2):
        assert (await issuer.claims(provider.token()))["sub"] == "u-7"
    assert not slow.done()
    slow.cancel()
