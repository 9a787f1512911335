import asyncio
import re
import threading
from email import message_from_bytes
from email.policy import default

import pytest
import uvloop
from fix_receiver import LOOPBACK, answers
from fix_relay import MOMENT, drop, hang, later, reply

from procession.engine.outcome import Failed, Succeeded, Unknown
from procession.outbound.http import Client, Rules
from procession.outbound.mail import Mail, Mailer, NotSent
from procession.outbound.mailbox import mailbox
from procession.outbound.resolve import Resolver
from procession.outbound.retry import Tries
from procession.outbound.smtp_session import Security

TWICE = Tries(retries=1)
WORDS = "5.7.1 <ann@example.org>: hunter2 says no, see https://relay.example.com/?token=hunter2"


def read(taken):
    return message_from_bytes(taken.content, policy=default)


async def test_one_message_is_handed_over_to_one_address(relay, email, by):
    outcome = await email(by(relay), {"Text": "Hello", "ReplyTo": "Bob <bob@example.org>"})

    (taken,) = relay.taken
    message = read(taken)
    assert outcome == Succeeded()
    assert (taken.sender, taken.recipients) == ("desk@example.com", ["ann@example.org"])
    assert sorted(message.keys()) == sorted(
        ["From", "To", "Subject", "Reply-To", "Date", "Message-ID", "MIME-Version", "Content-Type"]
    )
    assert (message["From"], message["To"]) == (
        "Desk <desk@example.com>",
        "Ann <ann@example.org>",
    )
    assert (message["Subject"], message["Reply-To"]) == ("Hello", "Bob <bob@example.org>")
    assert re.fullmatch(r"<[^@<>]+@example\.com>", message["Message-ID"])
    assert [(one.get_content_type(), one.get_content()) for one in message.iter_parts()] == [
        ("text/plain", "Hello\r\n"),
        ("text/html", "<p>Hello</p>\r\n"),
    ]


async def test_without_a_text_the_message_is_html_alone(relay, email, by):
    await email(by(relay), {"Text": ""})

    assert read(relay.taken[0]).get_content_type() == "text/html"


async def test_it_says_what_it_must_and_goodbye(relay, email, by):
    await email(by(relay))

    async with asyncio.timeout(5):
        await relay.left.wait()
    assert relay.commands == [
        "EHLO [127.0.0.1]",
        "MAIL FROM:<desk@example.com>",
        "RCPT TO:<ann@example.org>",
        "DATA",
        "content",
        "QUIT",
    ]


@pytest.fixture
async def guarded(make_relay, relay_tls):
    """A relay with everything that a phase can be made of."""
    relay = await make_relay(tls_context=relay_tls, require_starttls=True)
    relay.users["desk"] = "hunter2"
    return relay


@pytest.fixture
def into(by):
    """The provider that has what that relay demands."""

    def make(relay, **changes):
        return by(relay, Security.STARTTLS, username="desk", password="hunter2", **changes)

    return make


@pytest.mark.parametrize(
    "refusal",
    [
        ("MAIL", 451, "SMTP MAIL FROM: 451"),
        ("MAIL", 550, "SMTP MAIL FROM: 550"),
        ("RCPT", 421, "SMTP RCPT TO: 421"),
        ("RCPT", 450, "SMTP RCPT TO: 450"),
        ("RCPT", 550, "SMTP RCPT TO: 550"),
        ("STARTTLS", 454, "SMTP STARTTLS: 454"),
        ("AUTH", 454, "SMTP login: 454"),
        ("AUTH", 535, "SMTP login: 535"),
        ("EHLO", 421, "SMTP EHLO: 421"),
    ],
)
async def test_a_refusal_before_the_content_is_tried_again(guarded, email, into, refusal):
    phase, code, error = refusal
    times = 2 if phase == "AUTH" else 1  # with both of the ways that the relay knows
    guarded.will(phase, *[reply(f"{code} {WORDS}")] * times)
    assert await email(into(guarded)) == Failed(error, retryable=True)

    guarded.will(phase, *[reply(f"{code}-{WORDS}\r\n{code} {WORDS}")] * times)
    assert await email(into(guarded), tries=TWICE) == Succeeded()
    assert len(guarded.taken) == 1


@pytest.mark.parametrize(
    "phase",
    [
        ("EHLO", "EHLO"),
        ("STARTTLS", "STARTTLS"),
        ("AUTH", "login"),
        ("MAIL", "MAIL FROM"),
        ("RCPT", "RCPT TO"),
    ],
)
@pytest.mark.parametrize("fault", [(drop, "ConnectionLost"), (hang, "Timeout")])
async def test_a_relay_that_goes_or_is_mute_before_the_content_is_tried_again(
    guarded, email, into, phase, fault
):
    (phase, named), (act, kind) = phase, fault
    guarded.will(phase, act)
    quick = into(guarded, step=3 * MOMENT)
    assert await email(quick) == Failed(f"SMTP {named}: {kind}", retryable=True)

    guarded.will(phase, act)
    assert await email(into(guarded, step=3 * MOMENT), tries=TWICE) == Succeeded()
    assert len(guarded.taken) == 1


@pytest.mark.parametrize("phase", ["DATA", "content"])
@pytest.mark.parametrize("code", [421, 451, 550, 554])
async def test_a_refusal_from_data_on_is_for_the_durable_queue(relay, email, by, phase, code):
    text = f"{code} {WORDS}"
    relay.will(phase, text if phase == "content" else reply(text))

    outcome = await email(by(relay), tries=TWICE)

    assert outcome == Failed(f"SMTP {phase}: {code}", retryable=True)
    assert (relay.connections, relay.taken) == (1, [])


@pytest.mark.parametrize("phase", ["DATA", "content"])
@pytest.mark.parametrize(
    "fault",
    [
        (drop, "ConnectionLost"),
        (hang, "Timeout"),
        (reply("what? hunter2"), "BadReply"),
        (reply("300 hunter2"), "300"),
    ],
)
async def test_no_answer_from_data_on_leaves_it_in_doubt(relay, email, by, phase, fault):
    act, kind = fault
    relay.will(phase, act)

    outcome = await email(by(relay, step=MOMENT), tries=TWICE)

    assert outcome == Unknown(f"SMTP {phase}: {kind}")
    assert relay.connections == 1


async def test_what_is_behind_the_go_ahead_is_no_reply_to_the_content(relay, email, by):
    relay.will("DATA", reply("354 Go\r\n250 Queued"))
    relay.will("content", "550 No")

    assert await email(by(relay), tries=TWICE) == Unknown("SMTP DATA: BadReply")
    assert (relay.connections, relay.taken) == (1, [])
    assert "content" not in relay.commands


@pytest.mark.parametrize(
    "ok",
    [
        ("EHLO", 250, "EHLO"),
        ("AUTH", 235, "login"),
        ("MAIL", 250, "MAIL FROM"),
        ("RCPT", 250, "RCPT TO"),
    ],
)
@pytest.mark.parametrize("more", ["354 Go", "250", "garbage", "2"])
async def test_a_relay_that_says_more_than_it_is_asked_is_not_listened_to(
    guarded, email, into, ok, more
):
    phase, code, named = ok
    guarded.will(phase, *[reply(f"{code} Ok\r\n{more}")] * 2)

    outcome = await email(into(guarded))

    assert outcome == Failed(f"SMTP {named}: BadReply", retryable=True)
    assert "DATA" not in guarded.commands


@pytest.mark.parametrize("phase", ["RCPT", "DATA", "content"])
async def test_a_refusal_is_one_whatever_comes_behind_it(relay, email, by, phase):
    text = "550 No\r\n421 Good bye"
    relay.will(phase, text if phase == "content" else reply(text))

    named = {"RCPT": "RCPT TO"}.get(phase, phase)
    assert await email(by(relay)) == Failed(f"SMTP {named}: 550", retryable=True)


async def test_a_content_that_is_taken_unasked_is_in_doubt(relay, email, by):
    relay.will("DATA", reply("250 Queued"))

    assert await email(by(relay), tries=TWICE) == Unknown("SMTP DATA: 250")


@pytest.mark.parametrize(
    "text", ["250 Ok", "250", "251 Forwarded", "299-a\r\n299 b", "250 Ok\r\n421 Good bye"]
)
async def test_once_the_content_is_taken_it_is_sent(relay, email, by, text):
    relay.will("content", text)
    relay.will("QUIT", drop)

    assert await email(by(relay), tries=TWICE) == Succeeded()


async def test_a_relay_that_takes_the_content_and_goes_has_taken_it(relay, email, by):
    async def take_and_go(server):
        await server.push("250 Ok")
        server.transport.close()

    relay.will("content", take_and_go)

    assert await email(by(relay), tries=TWICE) == Succeeded()


@pytest.mark.parametrize("garbage", ["", "hunter2", "999 hunter2", "-12 hunter2", "\xff\xfe"])
async def test_a_codethat_is_none_is_no_reason_to_believe_that_it_went(relay, email, by, garbage):
    relay.will("RCPT", reply(garbage))

    outcome = await email(by(relay))

    assert outcome == Failed("SMTP RCPT TO: BadReply", retryable=True)


async def test_a_codewithout_end_is_cut_off(relay, email, by):
    async def chatter(server):
        for _ in range(50):
            await server.push("550-" + "hunter2 " * 120)

    relay.will("RCPT", chatter)

    assert (await email(by(relay))).error == "SMTP RCPT TO: BadReply"


async def test_a_relay_that_knows_no_ehlo_is_greeted_the_old_way(relay, email, by):
    relay.will("EHLO", reply("502 What?"))

    assert await email(by(relay)) == Succeeded()
    assert "HELO [127.0.0.1]" in relay.commands


async def test_a_relay_that_refuses_to_be_greeted_is_tried_again(relay, email, by):
    relay.will("EHLO", reply("550 No"))
    relay.will("HELO", reply("554 No"))

    assert await email(by(relay)) == Failed("SMTP EHLO: 554", retryable=True)


@pytest.mark.parametrize("security", list(Security))
async def test_the_connection_is_secured_as_it_must_be(make_relay, relay_tls, email, by, security):
    tls = {
        Security.STARTTLS: {"tls_context": relay_tls},
        Security.TLS: {"tls": relay_tls},
        Security.NONE: {},
    }
    relay = await make_relay(**tls[security])

    assert await email(by(relay, security)) == Succeeded()
    assert relay.taken[0].secured is (security is not Security.NONE)


async def test_a_relay_that_will_not_be_secured_is_told_nothing(relay, email, by):
    outcome = await email(by(relay, Security.STARTTLS))

    assert outcome == Failed("SMTP STARTTLS: NotOffered", retryable=True)
    assert relay.commands[0] == "EHLO [127.0.0.1]"
    assert [one for one in relay.commands if one.startswith(("AUTH", "MAIL"))] == []


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
async def test_a_relay_of_another_name_is_told_nothing(make_relay, relay_tls, email, by, security):
    tls = {"tls": relay_tls} if security is Security.TLS else {"tls_context": relay_tls}
    relay = await make_relay(**tls)
    resolve = answers(other_example_com=["127.0.0.1"])
    provider = by(relay, security, host="other.example.com", resolve=resolve)

    outcome = await email(provider)

    phase = "connect" if security is Security.TLS else "STARTTLS"
    assert outcome == Failed(f"SMTP {phase}: TlsFailed", retryable=True)
    assert relay.taken == []


async def test_a_relay_that_speaks_no_tls_on_its_port_is_told_nothing(relay, email, by):
    outcome = await email(by(relay, Security.TLS))

    assert outcome == Failed("SMTP connect: TlsFailed", retryable=True)
    assert relay.commands == []


async def test_a_login_is_made_when_there_is_one(guarded, email, into):
    assert await email(into(guarded)) == Succeeded()
    assert guarded.taken[0].login == ("desk", "hunter2")


async def test_a_wrong_password_is_not_sent(guarded, email, into):
    guarded.users["desk"] = "another"

    outcome = await email(into(guarded))

    assert outcome == Failed("SMTP login: 535", retryable=True)


async def test_a_relay_without_a_login_is_not_logged_in_to(relay, email, by):
    outcome = await email(by(relay, username="desk", password="hunter2"))

    assert outcome == Failed("SMTP login: NotOffered", retryable=True)


async def test_a_name_without_an_address_is_tried_again(email, by):
    async def nothing(_host):
        return []

    for resolve in (Resolver(), nothing):
        outcome = await email(by(1, host="nobody.invalid", resolve=resolve))

        assert outcome == Failed("SMTP connect: NameNotResolved", retryable=True)


async def test_a_relay_that_does_not_listen_is_tried_again(email, by):
    outcome = await email(by(1))

    assert outcome == Failed("SMTP connect: ConnectionFailed", retryable=True)


async def test_each_address_of_a_relay_is_tried(relay, email, by):
    resolve = answers(relay_example_com=["::1", "127.0.0.1"])

    assert await email(by(relay, resolve=resolve)) == Succeeded()


async def test_a_relay_may_be_an_address(relay, email, by):
    assert await email(by(relay, host="127.0.0.1")) == Succeeded()


@pytest.mark.parametrize(
    ("greeting", "kind"),
    [
        (b"554 hunter2\r\n", "554"),
        (b"220 Hello\r\n250 hunter2\r\n", "BadReply"),
        (b"hunter2\r\n", "BadReply"),
        (b"220-hunter2\r\n", "ConnectionLost"),
        (b"", "ConnectionLost"),
        (None, "Timeout"),
    ],
)
async def test_a_relay_must_greet(email, by, greeting, kind):
    async def greet(reader, writer):
        writer.write(greeting or b"")
        await writer.drain()
        if greeting is None or kind == "BadReply":
            await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await email(by(port, step=MOMENT))

    assert outcome == Failed(f"SMTP connect: {kind}", retryable=True)


async def test_a_try_that_does_not_send_lasts_three_steps_at_most(guarded, email, into):
    step = 3 * MOMENT
    for phase in ("EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT"):
        guarded.will(phase, *[later(0.8 * step.total_seconds())] * 2)
    provider = into(guarded, step=step)

    outcome = await email(provider)

    assert provider.bound == 3 * step
    assert outcome.retryable
    assert outcome.error.endswith(": Timeout")
    assert guarded.taken == []


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("RCPT", Failed("SMTP RCPT TO: Timeout", retryable=True)),
        ("DATA", Unknown("SMTP DATA: Timeout")),
        ("content", Unknown("SMTP content: Timeout")),
    ],
)
async def test_a_limit_for_all_tries_says_what_it_cut_off(relay, email, by, phase, expected):
    relay.will(phase, hang)

    assert await email(by(relay), tries=TWICE, limit=2 * MOMENT) == expected


async def test_a_limit_between_tries_finds_nothing_sent(relay, email, by):
    async def for_ever(_seconds):
        await asyncio.Event().wait()

    relay.will("RCPT", reply("450 Later"))

    outcome = await email(by(relay), tries=TWICE, limit=2 * MOMENT, sleep=for_ever)

    assert outcome == Failed("Email: Timeout", retryable=True)


async def test_the_tries_are_as_many_as_may_be_with_jitter_between_them(relay, email, by):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    relay.will("RCPT", *[reply("450 Later")] * 4)

    outcome = await email(by(relay), tries=Tries(retries=3), sleep=note)

    assert outcome == Failed("SMTP RCPT TO: 450", retryable=True)
    assert len(waits) == 3
    assert all(0.2 <= one <= 2 for one in waits)
    assert relay.connections == 4


async def test_the_last_try_decides(relay, email, by):
    relay.will("RCPT", reply("450 Later"))
    relay.will("content", "554 No")

    assert await email(by(relay), tries=TWICE) == Failed("SMTP content: 554", retryable=True)


async def test_many_lines_and_lone_dots_arrive_as_they_are(relay, email, by):
    body = "<p>\n.\r\n..\n.hidden\r.\r\r\n</p>" + "é" * 3000 + "x" * 3000

    assert await email(by(relay), {"Body": body}) == Succeeded()

    (taken,) = relay.taken
    assert max(len(line) for line in taken.content.split(b"\r\n")) < 1000
    assert taken.content.isascii()
    assert read(taken).get_content().splitlines() == re.split(r"\r\n|\r|\n", body)


@pytest.mark.parametrize("security", list(Security))
async def test_it_is_all_the_same_on_uvloop(make_relay, relay_tls, by, trust, security):
    tls = {Security.STARTTLS: {"tls_context": relay_tls}, Security.TLS: {"tls": relay_tls}}
    relay = await make_relay(**tls.get(security, {}))
    provider = by(relay, security)
    desk, ann = mailbox("desk@example.com"), mailbox("ann@example.org")

    async def send():
        async with Client(Rules(LOOPBACK), ssl_context=trust) as client:
            html = "x" * 100_000
            await Mailer(provider, desk).send(Mail(to=ann, subject="Hello", html=html), client)
            relay.will("RCPT", reply("550 No"), drop)
            reasons = []
            for _ in range(2):
                once = Mailer(provider, desk, Tries(retries=0))
                with pytest.raises(NotSent) as failed:
                    await once.send(Mail(to=ann, subject="Hello", html=html), client)
                reasons.append(str(failed.value))
            return reasons

    reasons = await asyncio.to_thread(uvloop.run, send())

    assert reasons == ["SMTP RCPT TO: 550", "SMTP RCPT TO: ConnectionLost"]
    assert len(relay.taken) == 1


class Watched:
    """A message that knows which thread has read its subject last."""

    to, text, reply_to = mailbox("ann@example.org"), "", None

    def __init__(self, html):
        self.html = html
        self.by = None

    @property
    def subject(self):
        self.by = threading.current_thread()
        return "Hello"


@pytest.mark.parametrize(("length", "apart"), [(10, False), (10_000, True)])
async def test_a_long_message_is_written_where_it_holds_nobody_up(
    relay, make_client, by, length, apart
):
    mail = Watched("é" * length)

    await Mailer(by(relay), mailbox("desk@example.com")).send(mail, make_client())

    assert len(relay.taken) == 1
    assert (mail.by is not threading.main_thread()) == apart


async def test_a_long_message_leaves_though_actions_hang_in_the_threads_of_the_loop(
    relay, make_client, by
):
    gate = threading.Event()
    hanging = [asyncio.create_task(asyncio.to_thread(gate.wait, 30)) for _ in range(32)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(10):
            mailer = Mailer(by(relay), mailbox("desk@example.com"))
            await mailer.send(Watched("x" * 10_000), make_client())
    finally:
        gate.set()
        await asyncio.gather(*hanging)

    assert len(relay.taken) == 1
