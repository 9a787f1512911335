import re
import tracemalloc
from time import thread_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from procession.engine import redaction
from procession.engine.redaction import LONGEST, LONGEST_READ, redact, storable, storable_value

ADDRESS = "https://ann:pw@db.example.com:8443/x?y#z"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (
            "401 from https://api.example.com/v1/send?access_token=abc",
            "401 from https://api.example.com",
        ),
        (
            "connect to https://ann:pw@db.example.com:8443/x failed",
            "connect to https://db.example.com:8443 failed",
        ),
        ("Authorization: Bearer abc rejected", "Authorization: [redacted]"),
        ("sent Bearer abc.def, refused", "sent Bearer [redacted], refused"),
        ('{"api_key":"k-1 23","id":7}', '{"api_key":[redacted],"id":7}'),
        ("client_secret=s3cr3t&grant=x", "client_secret=[redacted]&grant=x"),
        ('"token":"abc def', '"token":[redacted]'),
        ("/callback?code=4711&next=/home", "/callback?code=[redacted]&next=/home"),
        ("key sk_live_51Habcdefgh in use", "key [redacted] in use"),
        ("run 5f0c1d2e-8a4b-4c6d-9e0f-112233445566 is gone", "run [redacted] is gone"),
        ("mailbox ann@example.com is full", "mailbox [redacted] is full"),
        ("connect 10.1.2.3:5432 refused", "connect [redacted] refused"),
        ("connect [fd12::8]:443 refused", "connect [redacted] refused"),
        ("etag 9e107d9d372bb6826bd81d3542a419d6 differs", "etag [redacted] differs"),
        ("at 12:30:45 std::move failed", "at 12:30:45 std::move failed"),
        ("order-2026-000123 not found", "order-2026-000123 not found"),
        ("HTTP 503", "HTTP 503"),
    ],
)
def test_the_table_of_the_rules_holds(text, stored):
    assert redact(text) == stored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b",
            "a [redacted] b",
        ),
        ("a -----BEGIN EC KEY-----\nMII", "a [redacted]"),
        ("postgres://u:p@[fd12::8]:5432/db?x=1 away", "postgres://[redacted] away"),
        ("Set-Cookie: a=b; Path=/\nnext", "Set-Cookie: [redacted]\nnext"),
        ("x-api-key=abc def\r\nnext", "x-api-key=[redacted]\r\nnext"),
        ("Basic dXNlcjpwYXNzd29yZA== refused", "Basic [redacted] refused"),
        ("Basic auth failed", "Basic auth failed"),
        (f"got {JWT}!", "got [redacted]!"),
        ("{5F0C1D2E-8A4B-4C6D-9E0F-112233445566}", "[redacted]"),
        ("passwd='it\\'s' ok", "passwd=[redacted] ok"),
        ("account 123456789012 gone", "account [redacted] gone"),
        ("account 12345678901 gone", "account 12345678901 gone"),
        ("peer fe80::1%eth0 gone", "peer [redacted] gone"),
    ],
)
def test_each_step_masks_what_it_is_for(text, stored):
    assert redact(text) == stored


def test_nul_and_lone_surrogates_are_spelt_out():
    assert redact("a\0b\ud800c\udfff") == "a\\u0000b\\ud800c\\udfff"
    assert storable("é🙂") == "é🙂"
    assert storable_value({"a\0": ["\udead", 1, None, {"b": True}]}) == {
        "a\\u0000": ["\\udead", 1, None, {"b": True}]
    }


def test_a_long_text_ends_at_its_last_white_space_before_it_is_masked():
    filler = "fine " * (LONGEST_READ // 5)
    assert redact(filler + "x" * 100) == filler[:LONGEST]

    # the credential would be cut to a harmless looking rest
    head = "-" * (LONGEST_READ - 10)
    assert redact(f"{head} hunter2hunter2 and more") == "-" * LONGEST


def test_a_long_text_without_white_space_leaves_nothing_but_a_mask():
    assert redact("x" * (LONGEST_READ + 1)) == "[redacted]"
    assert redact("x" * LONGEST_READ) == "x" * LONGEST


SECRETS = [
    "Authorization: Bearer {}",
    "Bearer {}",
    "Cookie: session={}",
    "https://ann:{}@example.com/",
    "https://example.com/?q={}",
    '{{"password": "{}"}}',
    "client_secret={}",
    "?code={}&x=1",
    "{}@example.com",
    "sk_live_{}",
    "whsec_{}",
]


@pytest.mark.parametrize("form", SECRETS)
@pytest.mark.parametrize("place", [0, 1, 450, 480, 490, 495, 499, 500, 501, 4080, 4090, 4095])
def test_no_planted_secret_survives_wherever_the_text_is_cut(form, place):
    text = ("fine " * 1000)[:place] + " " + form.format("Zq7RtKw9Xp") + " " + "more " * 10

    stored = redact(text)

    assert "Zq7R" not in stored
    assert len(stored) <= LONGEST


PIECES = st.sampled_from(
    [
        *(form.format("Zq7RtKw9Xp") for form in SECRETS),
        "token",
        "=",
        ":",
        " ",
        '"',
        "'",
        "\\",
        "\n",
        "&",
        "[redacted]",
        "[",
        "]",
        "://",
        "@",
        "::",
        "a",
        "1",
        "f" * 15,
        ".",
        "-",
        "\0",
        "\ud800",
        "eyJ",
        "Bearer",
        "basic ",
        "word " * 99,
    ]
)


@settings(max_examples=300)
@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
@example("x" * 490 + " Authorization: Zq7RtKw9Xp")
def test_a_second_pass_may_mask_more_but_reveals_nothing(text):
    once = redact(text)
    twice = redact(once)

    assert len(once) <= LONGEST
    assert len(twice) <= LONGEST
    assert "\0" not in once
    once.encode()


ADDRESSES = r"""(?i)\b([a-z][a-z0-9+.-]*)://(?:[^\s/?#@"'<>]*@)?(\[[0-9a-f:.]+\]|[^\s/?#:@"'<>\\,;()\[\]{}]+)(:\d{1,5})?[^\s"'<>]*"""
TOKENS = r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
SIGNS = st.sampled_from(
    [
        *"aK1+.-_:/@[]?#\"' <,éeyJ",
        "\u017f",
        "\u212a",
        "://",
        "a://",
        "eyJ",
        "eyJa.",
        "[::1]",
        ":80",
        "\n",
    ]
)


@settings(max_examples=1000)
@given(st.lists(SIGNS, max_size=30).map("".join))
@example("1.a.b://x 1://y a://b://c a:// [a://[f] _a-b://u@h:1/2")
def test_what_reads_a_text_once_finds_what_the_patterns_of_the_rule_do(text):
    assert redaction._addresses_cut(text) == re.sub(ADDRESSES, r"\1://\2\3", text)  # noqa: SLF001
    assert redaction._tokens_masked(text) == re.sub(TOKENS, "[redacted]", text)  # noqa: SLF001


# The patterns of the rule take minutes for these.
@pytest.mark.parametrize("part", ["a.", "a-", "1.", "a.://", "1://", "://", "a://[", "a@"])
def test_addresses_are_found_in_a_text_of_any_length(part):
    text = part * 200_000

    redaction._addresses_cut(text)  # noqa: SLF001


@pytest.mark.parametrize("part", ["eyJ-", "eyJa."])
def test_tokens_are_found_in_a_text_of_any_length(part):
    redaction._tokens_masked(part * 200_000)  # noqa: SLF001


@pytest.mark.parametrize("sign", ["\0", "\ud800", "a"])
def test_of_a_text_of_any_length_no_more_is_read_than_is_kept(sign):
    text = "It said " + sign * 8_000_000

    tracemalloc.start()
    try:
        redact(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize(
    "part",
    ["a.", "a", "1a", "a:", "f:", "::", "token", 'token="', "token='\\", "a://", "a@", "@", "1.",
     "-----BEGIN ", "-----BEGIN A-----", "eyJa.", "Bearer ", "bearer", "token" + " " * 50, "x-",
     "authorization: ", "[", "{", "%", "a://b@", "?key=", "\\", '"\\\n', "/_=-"],
)  # fmt: skip
@pytest.mark.parametrize("size", [4096, 400_000])
def test_a_hostile_text_takes_no_time(part, size):
    text = (part * size)[: size - 2] + " \n"

    started = thread_time()
    redact(text)

    assert thread_time() - started < 0.5
