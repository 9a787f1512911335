"""What is read as one address, and that a message holds what it was given and nothing else."""

import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.policy import compat32, default

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from procession.outbound.mail import Mail
from procession.outbound.mailbox import Mailbox, mailbox, on_one_line
from procession.outbound.message import content_of, message_of

DESK = Mailbox("desk", "example.com", "Desk")
ANN = Mailbox("ann", "example.org")
HEADERS = ["From", "To", "Subject", "Date", "Message-ID"]
MIME = ["MIME-Version", "Content-Type", "Content-Transfer-Encoding"]
EVIL = st.sampled_from(
    [
        *'\r\n\0\t\v\f\x1c\x85\u2028\uff20\uff0c<>@,;:"\\() .=?_éℂ。',
        *("\r\n.\r\n", "\r\nBcc: eve@evil.org\r\n", "eve@evil.org", "<eve@evil.org>", "\r."),
        *("=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLm9yZw0K?=", " " * 80, "x" * 90),
    ]
)
TEXT = st.one_of(st.text(max_size=60), st.lists(EVIL, max_size=12).map("".join), st.text("aé ,"))


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("ann@example.org", "ann@example.org", ""),
        ("  ann@example.org ", "ann@example.org", ""),
        ("<ann@example.org>", "ann@example.org", ""),
        ("Ann <ann@example.org>", "ann@example.org", "Ann"),
        ('"Ann (desk)" <ann@example.org>', "ann@example.org", "Ann (desk)"),
        ("Añn Ω <ann.b+c@mail.example.org>", "ann.b+c@mail.example.org", "Añn Ω"),
        ("ann@localhost", "ann@localhost", ""),
        ("ann@bücher.example", "ann@xn--bcher-kva.example", ""),
        ("o'neil=x@example.org", "o'neil=x@example.org", ""),
    ],
)
def test_one_address_is_read(text, address, name):
    read = mailbox(text)

    assert (read.address, read.name) == (address, name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ann",
        "@example.org",
        "ann@",
        "ann@example..org",
        "ann@-example.org",
        "ann..b@example.org",
        "ann@example.org, bob@example.org",
        "ann@example.org; bob@example.org",
        "ann@example.org bob@example.org",
        '"Ann, the desk" <ann@example.org>',
        "Ann <ann@example.org",
        "ann@example.org>",
        "Ann <ann@example.org> <eve@evil.org>",
        "Ann <ann@example.org> eve@evil.org",
        "ann@eve@evil.org",
        "eve@evil.org <ann@example.org>",
        "Ann\n<ann@example.org>",
        "ann@example.org\n",
        "ann@example.org\r\nRCPT TO:<eve@evil.org>",
        "ann@example.org\u2028",
        "ann\0@example.org",
        '"a b"@example.org',
        "ann(comment)@example.org",
        "ann@[127.0.0.1]",
        "änn@example.org",
        "=?utf-8?q?Ann?= <ann@example.org>",
        "ann@example\uff0ceve.org",
        "a" * 65 + "@example.org",
        "ann@" + "a" * 64 + ".org",
        "ann@" + ".".join(["a" * 60] * 5),
        "ann@" + "é" * 300,
    ],
)
def test_what_is_not_one_address_is_none(text):
    with pytest.raises(ValueError, match=r"^.*$"):
        mailbox(text)


@given(TEXT, TEXT)
def test_an_address_never_becomes_another_by_what_is_put_around_it(before, after):
    """However a value is put into To, what is read is one address that says so itself."""
    try:
        read = mailbox(f"{before}<ann@example.org>{after}")
    except ValueError:
        return

    assert read.address == "ann@example.org"


@given(TEXT)
@example("a" * 70 + " é " + "b" * 70)
@example("(é" + "x" * 100 + ")")
@example("é" * 200)
def test_a_name_stays_a_name(name):
    try:
        to = mailbox(f"{name} <ann@example.org>")
    except ValueError:
        return

    message = _message(Mail(to=to, subject="Hello", html="Hello", reply_to=to))

    for header in ("To", "Reply-To"):
        (address,) = message[header].addresses
        assert address.addr_spec == "ann@example.org"
        assert re.sub(r"\s+", "", address.display_name) == re.sub(r"\s+", "", to.name)
    assert message.keys()[:6] == ["From", "To", "Subject", "Reply-To", "Date", "Message-ID"]


@given(TEXT)
@example("=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLm9yZw0K?=")
@example("x" * 2000)
@example("")
def test_a_subject_ends_no_header(subject):
    wire = content_of(message_of(DESK, Mail(to=ANN, subject=subject, html="Hello")))

    message = _read(wire)
    shown = str(make_header(decode_header(message_from_bytes(wire, policy=compat32)["Subject"])))
    assert sorted(message.keys()) == sorted([*HEADERS, *MIME])
    assert [one.addr_spec for one in message["To"].addresses] == ["ann@example.org"]
    assert shown.split() == on_one_line(subject).split()
    assert max(len(line) for line in wire.split(b"\r\n")) < 998


@given(TEXT, TEXT)
def test_a_body_ends_no_message_and_arrives_as_it_is(html, text):
    wire = content_of(message_of(DESK, Mail(to=ANN, subject="Hello", html=html, text=text)))

    assert wire.endswith(b"\r\n.\r\n")
    assert wire.count(b"\r\n.\r\n") == 1
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", wire)
    assert wire.isascii()
    message = _read(wire)
    parts = [message] if not text else list(message.iter_parts())
    assert [_lines(one.get_content()) for one in parts] == [
        _lines(one) for one in ([text, html] if text else [html])
    ]


def _message(mail):
    return _read(content_of(message_of(DESK, mail)))


def _read(wire):
    """As a relay undoes it."""
    lines = [one.removeprefix(b".") for one in wire.split(b"\r\n")[:-2]]
    return message_from_bytes(b"\r\n".join(lines) + b"\r\n", policy=default)


def _lines(text):
    """Its lines but for empty ones at its end."""
    return re.split(r"\r\n|\r|\n", re.sub(r"[\r\n]+\Z", "", text))
