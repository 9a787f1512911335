import base64
import html
import json
import string
import tracemalloc
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from procession.engine import unescaping
from procession.engine.delivery import BODY_KEPT, excerpt, masked, reason, secrets_of
from procession.engine.masking import mask

SECRET = "tr0ub4dor & 3/ü"


def percent(one, safe="", spell="%{:02X}"):
    """Each byte that is not safe as the encoder of some language spells it."""
    raw = one.encode()
    return "".join(chr(byte) if chr(byte) in safe else spell.format(byte) for byte in raw)


def in_lines(text, end="\n", width=10):
    return end.join(text[at : at + width] for at in range(0, len(text), width))


PLAIN = string.ascii_letters + string.digits
ENCODERS = {
    "encodeURIComponent": lambda one: percent(one, PLAIN + "-_.!~*'()"),
    "encodeURI": lambda one: percent(one, PLAIN + "-_.!~*'();/?:@&=+$,#"),
    "Java": lambda one: percent(one, PLAIN + "-_.* ").replace(" ", "+"),
    "PHP": lambda one: percent(one, PLAIN + "-_. ").replace(" ", "+"),
    "old tilde": lambda one: quote(one, safe="").replace("~", "%7E"),
    "lower case": lambda one: percent(one, PLAIN, "%{:02x}"),
    "every sign": percent,
    "some signs": lambda one: percent(one, "aeiou &/" + string.digits),
    "twice": lambda one: quote(quote(one, safe=""), safe=""),
    "in JSON": lambda one: json.dumps(percent(one, PLAIN + '"')),
    "in HTML": lambda one: html.escape(percent(one, PLAIN + "&<'")),
    "short lines": lambda one: in_lines(base64.b64encode(one.encode()).decode()),
    "lines in JSON": lambda one: json.dumps(
        in_lines(base64.b64encode(one.encode()).decode(), "\r\n")
    ),
    "indented": lambda one: in_lines(base64.urlsafe_b64encode(one.encode()).decode(), "\n\t  "),
    "percent of base64": lambda one: quote(base64.b64encode(one.encode()), safe=""),
    "no padding": lambda one: base64.urlsafe_b64encode(one.encode()).decode().rstrip("="),
}
texts = st.text(st.characters(codec="utf-8"), max_size=60)
secrets = st.text(st.characters(codec="utf-8", exclude_characters="[redacted]"), min_size=8)
forms = st.sampled_from(
    [
        str,
        lambda one: quote(one, safe=""),
        quote,
        quote_plus,
        lambda one: base64.b64encode(one.encode()).decode(),
        lambda one: base64.urlsafe_b64encode(one.encode()).decode(),
        lambda one: base64.b64encode(one.encode()).decode().rstrip("="),
        lambda one: json.dumps(one)[1:-1],
        lambda one: json.dumps(one, ensure_ascii=False)[1:-1],
    ]
)


@given(texts, secrets, forms, texts)
def test_no_form_of_a_secret_stays(before, secret, form, after):
    text = mask(before + form(secret) + after, [secret])

    assert form(secret) not in text.replace("[redacted]", "")


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS)
@given(secret=secrets)
@example(secret="p@ss'word(1)!*~ +%41&amp;%")
@example(secret="tok-" + "abcdef0123456789XYZ!" * 6)
def test_no_encoder_brings_a_secret_through(encode, secret):
    told = mask(f"it: {encode(secret)} .", [secret])

    left = told.replace("[redacted]", "").removeprefix("it:").removesuffix(" .")
    assert "[redacted]" in told
    assert len(left) <= 6  # quotes, padding, and what the encoder of lines left


def test_no_lines_of_mime_bring_a_secret_through():
    secret = "tok-" + "abcdef0123456789XYZ!" * 6
    whole = base64.encodebytes(f"token={secret}".encode()).decode()

    left = mask(whole, [secret]).split("[redacted]")

    assert left == ["dG9rZW49", "\n"]


@given(st.binary(max_size=20), secrets, st.binary(max_size=20))
@example(b"", "sixteen letters.", b"")
def test_a_secret_inside_a_longer_text_in_base64_is_no_more_there(before, secret, after):
    whole = base64.b64encode(before + secret.encode() + after).decode()
    text = mask(whole, [secret])

    left = text.replace("[redacted]", "")
    # what stays beside the mask are the signs that the secret shares with its neighbours
    assert len(left) <= len(whole) - len(secret.encode()) * 8 // 6 + 3


@pytest.mark.parametrize("kept", range(6, len(SECRET)))
def test_a_secret_across_the_cut_leaves_nothing_of_itself(kept):
    cut = "answer: " + SECRET[:kept]

    assert mask(cut, [SECRET], is_cut=True) == "answer: [redacted]"
    assert mask(cut, [SECRET]) == cut


def test_the_longest_secret_goes_first():
    assert mask("ab abc abcd", ["ab", "abcd"]) == "[redacted] [redacted]c [redacted]"


def test_no_secret_masks_nothing():
    assert mask("text", [""]) == mask("text", []) == "text"


def test_headers_that_may_let_in_lose_their_values():
    headers = {
        "Authorization": "Bearer abc",
        "X-Auth": "a",
        "Cookie": "a=b",
        "webhook-signature": "v1,abc",
        "Idempotency-Key": "k",
        "X-Api-KEY": "k",
        "X-Csrf-Token": "t",
        "X-Client-Secret": "s",
        "webhook-id": "i",
        "X-Of-Mine": "abc-secret-abc",
    }

    kept = masked(headers, ["secret"])

    assert {name for name, value in kept.items() if value == "[redacted]"} == {
        *list(headers)[:8],
    }
    assert (kept["webhook-id"], kept["X-Of-Mine"]) == ("i", "abc-[redacted]-abc")
    assert secrets_of(headers) == ("Bearer abc", "v1,abc")


def test_a_header_that_only_sounds_like_a_secret_spoils_no_answer():
    headers = {"X-Author": "e", "X-Keyword": "50", "X-Key": "1234"}
    known = secrets_of(headers)

    assert set(masked(headers).values()) == {"[redacted]"}
    assert excerpt(b"The service 500 is not there: 1234", known) == (
        "The service 500 is not there: [redacted]"
    )
    assert reason("HTTP 500", known) == "HTTP 500"


def test_an_excerpt_is_text_that_can_be_stored():
    assert excerpt(b"", []) is None
    assert excerpt(b"a\0b\xff\xc3\xa9", []) == "a\\u0000b\\xffé"


def test_an_excerpt_is_cut_after_what_it_hides():
    body = b"x" * (BODY_KEPT - 8) + SECRET.encode()

    kept = excerpt(body[:BODY_KEPT], [SECRET])

    assert kept == "x" * (BODY_KEPT - 8) + "[redacte"


@pytest.mark.parametrize("body", [b"e" * BODY_KEPT, b"\xff" * BODY_KEPT, b"\0" * BODY_KEPT])
def test_an_excerpt_is_as_long_as_what_it_shows_or_shorter(body):
    assert len(excerpt(body, ["eeee", "e"])) == BODY_KEPT


def undone():
    used = unescaping.meaning.cache_info()
    return used.hits + used.misses


def test_bytes_that_are_no_text_are_no_escapes_to_undo():
    before = undone()

    kept = excerpt(bytes(range(128, 256)) * 4 + SECRET.encode() + b"\xff" * 16, [SECRET])

    assert kept.endswith("\\xfe\\xff[redacted]" + "\\xff" * 16)
    assert undone() == before


@pytest.mark.parametrize("told", ["", SECRET])
def test_no_escape_is_undone_twice_whether_something_is_found_or_not(told):
    excerpt(b"it is", [SECRET])  # whose forms are known then
    before = undone()

    excerpt(told.encode() + b"%41" * 1_000, [SECRET])

    assert undone() - before == 1_000


def test_a_secret_among_other_bytes_is_masked():
    assert excerpt(b"\xff\xfe" + SECRET.encode() + b"\x80", [SECRET]) == "\\xff\\xfe[redacted]\\x80"
    assert excerpt(b"a " + SECRET.encode("latin-1") + b" b", [SECRET]) == "a [redacted] b"


def test_of_a_long_secret_no_more_is_looked_at_than_the_text_has_room_for():
    mask("HTTP 500", [SECRET], is_cut=True)
    long = [f"{at}<\u0101%41" * 20_000 for at in range(3)]
    tracemalloc.start()
    try:
        mask("HTTP 500", long, is_cut=True)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 10_000
    assert most < 200_000


@given(secrets, forms, st.integers(480, 500))
def test_a_reason_hides_a_secret_at_the_cut(secret, form, at):
    said = reason("a " * (at // 2) + form(secret) + " and more", [secret])

    assert len(said) <= 500
    assert form(secret)[:8] not in said.replace("[redacted]", "")


ESCAPERS = {
    "slash": lambda one: json.dumps(one)[1:-1].replace("/", "\\/"),
    "upper": lambda one: "".join(f"\\u{ord(sign):04X}" for sign in one),
    "lower": lambda one: (
        one.replace("&", "\\u0026").replace("<", "\\u003c").replace("+", "\\u002b")
    ),
    "html": html.escape,
    "decimal": lambda one: "".join(sign if sign.isalnum() else f"&#{ord(sign)};" for sign in one),
    "hex": lambda one: "".join(sign if sign.isalnum() else f"&#x{ord(sign):X};" for sign in one),
    "html in json": lambda one: html.escape(one).replace("&", "\\u0026"),
    "base64": lambda one: base64.b64encode(one.encode()).decode().replace("/", "\\/"),
}


@pytest.mark.parametrize("escape", ESCAPERS.values(), ids=ESCAPERS)
@pytest.mark.parametrize("secret", ["s3cr+t/&<\"'ü=end", "???>>>~~~/+/+"])
def test_a_secret_that_an_encoder_escaped_is_masked(escape, secret):
    assert mask(f"a&amp;b {escape(secret)} \\/z", [secret]) == "a&amp;b [redacted] \\/z"


CUT = ESCAPERS | ENCODERS


@pytest.mark.parametrize("name", sorted(CUT.keys() - {"base64", "in JSON", "lines in JSON"}))
def test_the_beginning_of_an_escaped_secret_is_masked_wherever_it_is_cut(name):
    escape = CUT[name]
    secret = "s3cr3t-+/&<ü=end"
    form = escape(secret)
    least = len(escape(secret[:6])) + 2
    for at in range(least, len(form)):
        assert excerpt(f"it: {form[:at]}".encode(), [secret]) == "it: [redacted]"


def test_a_body_that_ended_early_gives_away_no_beginning():
    assert excerpt(SECRET.encode()[:8], [SECRET]) == "[redacted]"
    assert excerpt(SECRET.encode()[:-1], [SECRET]) == "[redacted]"  # in the middle of a sign


@pytest.mark.parametrize("name", sorted(CUT.keys() - {"in JSON", "lines in JSON"}))
@pytest.mark.parametrize("kept", [200, BODY_KEPT - 10, BODY_KEPT])
def test_the_beginning_of_a_long_secret_is_masked_wherever_it_is_cut(name, kept):
    secret = "s3cr3t-+/&<ü=end 0123" * 1_000
    body = f"it: {CUT[name](secret)}".encode()

    assert excerpt(body[:kept], [secret]) == "it: [redacted]"
