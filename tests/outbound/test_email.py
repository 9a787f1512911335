"""What an Email refuses by itself, and that no value adds anybody or anything to a message."""

from email import message_from_bytes
from email.policy import default

import pytest
from fix_actions import an_attempt, an_entry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from procession.actions.email import Email
from procession.engine.content_type import ContentType, Field
from procession.engine.outcome import Failed, Succeeded

DEFINED = ContentType({"Value": Field()})
NEVER = Failed("To is not one email address.")
EVIL = st.sampled_from(
    [
        *'\r\n\0\u2028<>@,;:"\\() .é',
        *("\r\nBcc: eve@evil.org", "\r\n\r\n", "\r\n.\r\nMAIL FROM:<eve@evil.org>\r\n"),
        *("eve@evil.org", "<eve@evil.org>", "> RCPT TO:<eve@evil.org", "x" * 70, "{{data.Value}}"),
        *("=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLm9yZw0K?=", "@evil.org", "> NOTIFY=NEVER", "%0d%0a"),
    ]
)
VALUE = st.one_of(st.text(max_size=30), st.lists(EVIL, max_size=8).map("".join))
TEMPLATES = {
    "To": [
        "ann@example.org",
        "Ann <ann@example.org>",
        "{{data.Value}} <ann@example.org>",
        '"{{data.Value}}" <ann@example.org>',
    ],
    "Subject": ["{{data.Value}}", "Re: {{data.Value}} {{data.Value | upper}}"],
    "Body": ["{{data.Value}}", "<p title='{{data.Value}}'>{{data.Value}}</p>"],
    "Text": ["{{data.Value}}", "Hello {{data.Value}}"],
    "ReplyTo": ["", "bob@example.org", "{{data.Value}} <bob@example.org>", "{{data.Value}}"],
}
KNOWN = {"From", "To", "Subject", "Reply-To", "Date", "Message-ID"}
KNOWN |= {"MIME-Version", "Content-Type", "Content-Transfer-Encoding"}


@pytest.mark.parametrize(
    "to",
    [
        "",
        "ann",
        "ann@example.org,bob@example.org",
        "ann@example.org;bob@example.org",
        "Ann, Bob <ann@example.org>",
        "ann@example.org\nbob@example.org",
        "a@b <ann@example.org>",
    ],
)
async def test_what_is_not_one_address_fails_for_good(relay, email, by, to):
    assert await email(by(relay), {"To": to}) == NEVER
    assert await email(by(relay), {"ReplyTo": to or "-"}) == Failed(
        "ReplyTo is not one email address."
    )
    assert relay.connections == 0


async def test_without_a_provider_it_fails_for_good(performed):
    attempt = an_attempt("Email", {"To": "ann@example.org", "Subject": "Hello", "Body": "Hello"})

    said = await performed({"Email": Email()}, attempt)

    assert said.outcome == Failed("No provider of email is set (EMAIL__PROVIDER).")


async def test_a_line_break_in_a_value_does_not_make_a_second_line(relay, email, by):
    outcome = await email(
        by(relay),
        {"To": "{{data.Value}}@example.org", "Subject": "{{data.Value}}"},
        entry=an_entry(data={"Value": "ann\r\nBcc: eve"}),
        defined=DEFINED,
    )

    assert outcome == NEVER


async def test_values_in_the_body_are_no_markup(relay, email, by):
    await email(
        by(relay),
        {"Body": "<p>{{data.Value}}</p>", "Text": "{{data.Value}}"},
        entry=an_entry(data={"Value": "<b> & \"c\" 'd'"}),
        defined=DEFINED,
    )

    text, markup = message_from_bytes(relay.taken[0].content, policy=default).iter_parts()
    assert text.get_content().strip() == "<b> & \"c\" 'd'"
    assert markup.get_content().strip() == "<p>&lt;b&gt; &amp; &quot;c&quot; &#x27;d&#x27;</p>"


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=VALUE,
    chosen=st.fixed_dictionaries({name: st.sampled_from(of) for name, of in TEMPLATES.items()}),
)
async def test_no_value_adds_a_recipient_a_header_or_a_message(relay, email, by, value, chosen):
    relay.taken.clear()
    relay.commands.clear()

    outcome = await email(by(relay), chosen, entry=an_entry(data={"Value": value}), defined=DEFINED)

    if isinstance(outcome, Failed):
        assert not outcome.retryable
        assert relay.commands == []
        return
    (taken,) = relay.taken
    message = message_from_bytes(taken.content, policy=default)
    assert outcome == Succeeded()
    assert (taken.sender, taken.recipients) == ("desk@example.com", ["ann@example.org"])
    assert [one for one in relay.commands if one != "QUIT"] == [
        "EHLO [127.0.0.1]",
        "MAIL FROM:<desk@example.com>",
        "RCPT TO:<ann@example.org>",
        "DATA",
        "content",
    ]
    assert set(message.keys()) <= KNOWN
    assert len(message.keys()) == len(set(message.keys()))
    assert [one.addr_spec for one in message["To"].addresses] == ["ann@example.org"]
    assert len(message["Reply-To"].addresses if "Reply-To" in message else ["none"]) == 1
