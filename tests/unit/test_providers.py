"""The providers that the settings name: what each needs, and how long each may take."""

import base64
import re
import shlex
from datetime import timedelta
from pathlib import Path

import pytest

from procession.app import compose, providers
from procession.app.budgets import email_retries
from procession.app.checks import SettingsError, read
from procession.app.settings import Settings
from procession.outbound.mailbox import mailbox
from procession.outbound.resend import Resend
from procession.outbound.sms import Twilio
from procession.outbound.smtp import Smtp

SMTP = {
    "EMAIL__PROVIDER": "smtp",
    "EMAIL__FROM": "Desk <desk@example.com>",
    "EMAIL__SMTP__HOST": "smtp.example.com",
}
RESEND = {
    "EMAIL__PROVIDER": "resend",
    "EMAIL__FROM": "desk@example.com",
    "EMAIL__RESEND__API_KEY": "re_hunter2",
}
TWILIO = {
    "SMS__PROVIDER": "twilio",
    "SMS__FROM": "+15005550006",
    "SMS__TWILIO__ACCOUNT_SID": "AC0123",
    "SMS__TWILIO__AUTH_TOKEN": "hunter2",
}
VERCEL = {
    "VERCEL_TOKEN": "hunter2",
    "VERCEL_TEAM_ID": "team_1",
    "VERCEL_PROJECT_ID": "prj_1",
}
HOLDS = "WORKFLOWS__LEASE_SECONDS=300: 80 % of it (240 s) must hold "
LIMIT = "WORKFLOWS__OUTBOUND__EMAIL_SEND_TIMEOUT_SECONDS"


@pytest.fixture
def given(monkeypatch):
    """Sets variables, in an environment with nothing else of ours but what every process needs."""
    for field in Settings.model_fields.values():
        monkeypatch.delenv(str(field.alias), raising=False)
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/app")
    monkeypatch.setenv("SECRETS__KEYS", f"one:{base64.b64encode(bytes(32)).decode()}")

    def give(*sets, **more):
        for name, value in {
            name: one for each in (*sets, more) for name, one in each.items()
        }.items():
            monkeypatch.setenv(name, value)

    return give


def faults(process="worker"):
    with pytest.raises(SettingsError) as refused:
        read(process)
    return refused.value.faults


@pytest.mark.parametrize("needed", [SMTP, RESEND, TWILIO])
def test_a_provider_needs_its_set_whole(given, needed):
    (chosen, name), *others = needed.items()
    given(needed)
    assert read("worker")

    for one, _ in others:
        given({one: ""})
        assert faults() == [f"{one} is not set: {chosen}={name} needs it"]
        assert faults("up") == faults()
        given(needed)

    given({one: "" for one, _ in others})
    assert len(faults()) == len(others)


def test_a_provider_that_is_not_chosen_needs_nothing(given):
    given({one: value for one, value in (SMTP | RESEND).items() if one != "EMAIL__PROVIDER"})

    assert providers.mailer(read("worker"), compose.tries(read("worker"))) is None


@pytest.mark.parametrize("needed", [SMTP, RESEND, TWILIO, VERCEL])
def test_a_process_that_sends_nothing_minds_no_set(given, needed):
    name, value = next(iter(needed.items()))
    given({name: value})

    assert read("api")
    assert read("migrate")


def test_a_login_is_both_or_neither(given):
    given(SMTP, EMAIL__SMTP__USERNAME="desk")
    assert faults() == ["EMAIL__SMTP__PASSWORD is not set: EMAIL__SMTP__USERNAME needs it"]

    given(EMAIL__SMTP__USERNAME="", EMAIL__SMTP__PASSWORD="hunter2")
    assert faults() == ["EMAIL__SMTP__USERNAME is not set: EMAIL__SMTP__PASSWORD needs it"]


@pytest.mark.parametrize("one", VERCEL)
def test_vercel_is_all_three_or_none(given, one):
    others = [name for name in VERCEL if name != one]

    given({one: VERCEL[one]})
    assert faults() == [f"{other} is not set: {one} needs it" for other in others]

    given(VERCEL, {one: ""})
    assert faults() == [f"{one} is not set: {' and '.join(others)} needs it"]


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("EMAIL__PROVIDER", "sendmail", "none, smtp or resend"),
        ("EMAIL__FROM", "desk", "one address, such as"),
        ("EMAIL__FROM", "a@b.org, c@d.org", "one address, such as"),
        ("EMAIL__SMTP__HOST", "smtp://relay", "a host, such as"),
        ("EMAIL__SMTP__HOST", "relay:25", "a host, such as"),
        ("EMAIL__SMTP__PORT", "0", "an integer from 1 to 65535"),
        ("EMAIL__SMTP__SECURITY", "ssl", "starttls, tls or none"),
        ("EMAIL__SMTP__USERNAME", "a\nb", "text on one line"),
        ("EMAIL__SMTP__TIMEOUT_SECONDS", "301", "an integer from 1 to 300"),
        ("EMAIL__RESEND__TIMEOUT_SECONDS", "901", "an integer from 1 to 900"),
        ("SMS__PROVIDER", "smtp", "none or twilio"),
        ("SMS__FROM", "+0", "a number such as"),
        ("SMS__TWILIO__ACCOUNT_SID", "AC/../x", "up to 128 letters"),
        ("VERCEL_TEAM_ID", "team 1", "up to 128 letters"),
        (LIMIT, "2881", "an integer from 0 to 2880"),
    ],
)
def test_a_value_out_of_range_is_named(given, name, value, takes):
    given({name: value})
    shown = value.replace("\n", r"\n")

    for process in ("api", "worker", "migrate"):
        (fault,) = faults(process)
        assert fault.startswith(f"{name}={shown}: takes {takes}")


@pytest.mark.parametrize(
    "name",
    ["EMAIL__SMTP__PASSWORD", "EMAIL__RESEND__API_KEY", "SMS__TWILIO__AUTH_TOKEN", "VERCEL_TOKEN"],
)
def test_a_secret_is_shown_nowhere(given, name):
    given({name: "hunter2\n"})
    assert "hunter2" not in faults()[0]
    assert faults()[0].startswith(f"{name}=***: takes ")

    given(
        SMTP, RESEND, TWILIO, VERCEL, EMAIL__SMTP__USERNAME="desk", EMAIL__SMTP__PASSWORD="hunter2"
    )
    settings = read("worker")
    made = [providers.mailer(settings, compose.tries(settings)), providers.texts(settings)]
    assert "hunter2" not in repr([settings, *made, providers.vercel(settings)])


@pytest.mark.parametrize("sender", ["+15005550006", "12345", "Procession", "MG0123456789abcdef"])
def test_a_sender_of_texts_is_a_number_a_name_or_a_service(given, sender):
    given(TWILIO, SMS__FROM=sender)

    assert providers.texts(read("worker")).sender == sender


def test_a_provider_is_made_as_the_settings_say(given):
    given(SMTP, TWILIO, VERCEL)
    settings = read("worker")

    mailer = providers.mailer(settings, compose.tries(settings))

    assert isinstance(mailer.provider, Smtp)
    assert mailer.sender == mailbox("Desk <desk@example.com>")
    assert (mailer.tries.retries, mailer.limit) == (1, None)
    assert mailer.provider.bound == timedelta(seconds=90)
    assert isinstance(providers.texts(settings), Twilio)
    assert providers.vercel(settings).url == (
        "https://api.vercel.com/v1/edge-cache/invalidate-by-tags?projectIdOrName=prj_1&teamId=team_1"
    )

    given(RESEND, {LIMIT: "200"})
    settings = read("worker")
    mailer = providers.mailer(settings, compose.tries(settings))
    assert isinstance(mailer.provider, Resend)
    assert mailer.provider.bound == timedelta(seconds=100)
    assert (mailer.tries.retries, mailer.limit) == (2, timedelta(seconds=200))


@pytest.mark.parametrize(
    ("values", "retries"),
    [
        (SMTP, 1),  # 2 x 90 + 2 is 182, 3 x 90 + 4 is 274, 240 are allowed
        (RESEND, 1),
        (SMTP | {"EMAIL__SMTP__TIMEOUT_SECONDS": "26"}, 2),  # 3 x 78 + 4 is 238
        (SMTP | {"EMAIL__SMTP__TIMEOUT_SECONDS": "27"}, 1),  # 3 x 81 + 4 is 247
        (SMTP | {"EMAIL__SMTP__TIMEOUT_SECONDS": "80"}, 0),
        (RESEND | {"EMAIL__RESEND__TIMEOUT_SECONDS": "119"}, 1),  # 2 x 119 + 2 is 240
        (RESEND | {"EMAIL__RESEND__TIMEOUT_SECONDS": "120"}, 0),
        (RESEND | {"EMAIL__RESEND__TIMEOUT_SECONDS": "1"}, 2),
        (RESEND | {"WORKFLOWS__OUTBOUND__RETRIES": "0"}, 0),
        (RESEND | {"WORKFLOWS__OUTBOUND__MAX_DELAY_SECONDS": "50"}, 0),
        (RESEND | {"JOBS__LEASE_SECONDS": "260"}, 1),  # 208 are allowed
        (RESEND | {LIMIT: "1"}, 2),
    ],
)
def test_an_email_is_tried_again_as_often_as_the_lease_allows(given, values, retries):
    given({"WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS": "1"}, values)
    if "MAX_DELAY" in str(values):
        given(WORKFLOWS__OUTBOUND__MAX_RETRY_AFTER_SECONDS="0")
        given(EMAIL__RESEND__TIMEOUT_SECONDS="100")

    assert email_retries(Settings()) == retries


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (
            {"WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS": "60"},
            (
                f"{HOLDS}the slowest action, which "
                "may take 2 x (30 + 3 x 60 + 2 x (2 + 5) + 30) = 508 s, most of it by "
                "WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS"
            ),
        ),
        (
            {"JOBS__LEASE_SECONDS": "60"},
            (
                "JOBS__LEASE_SECONDS=60: 80 % of it (48 s) must hold the slowest action, which may "
                "take 2 x (30 + 3 x 10 + 2 x (2 + 5) + 30) = 208 s, most of it by "
                "WORKFLOWS__OUTBOUND__ATTEMPT_TIMEOUT_SECONDS"
            ),
        ),
        (
            {"WORKFLOWS__OUTBOUND__MAX_RETRY_AFTER_SECONDS": "31"},
            (
                f"{HOLDS}the slowest action, which "
                "may take 2 x (30 + 3 x 10 + 2 x (2 + 31) + 30) = 312 s, most of it by "
                "WORKFLOWS__OUTBOUND__MAX_RETRY_AFTER_SECONDS"
            ),
        ),
        (
            {LIMIT: "241"},
            (f"{HOLDS}all tries of one email, which may take 241 s, most of it by {LIMIT}"),
        ),
        (
            SMTP | {"EMAIL__SMTP__TIMEOUT_SECONDS": "81"},
            (
                f"{HOLDS}one try of an email that "
                "is not sent, which may take 3 x 81 = 243 s, most of it by "
                "EMAIL__SMTP__TIMEOUT_SECONDS"
            ),
        ),
        (
            RESEND | {"EMAIL__RESEND__TIMEOUT_SECONDS": "241"},
            (
                f"{HOLDS}one try of an email that "
                "is not sent, which may take 241 s, most of it by EMAIL__RESEND__TIMEOUT_SECONDS"
            ),
        ),
    ],
)
def test_what_no_lease_holds_does_not_start_and_shows_its_sum(given, values, fault):
    given(values)

    assert faults() == [fault]
    assert read("api")


@pytest.mark.parametrize(
    "values",
    [
        {LIMIT: "240"},
        SMTP | {"EMAIL__SMTP__TIMEOUT_SECONDS": "80"},
        RESEND | {"EMAIL__RESEND__TIMEOUT_SECONDS": "240"},
        {"WORKFLOWS__LEASE_SECONDS": "260"},
        {"EMAIL__SMTP__TIMEOUT_SECONDS": "300", "EMAIL__RESEND__TIMEOUT_SECONDS": "900"},
    ],
)
def test_what_a_lease_just_holds_starts(given, values):
    given(values)

    assert read("worker")


def test_the_settings_of_the_documents_start_a_worker(given):
    page = (Path(__file__).parents[2] / "docs/messages.md").read_text(encoding="utf-8")
    blocks = [
        dict(line.split("=", 1) for line in shlex.split(block))
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    ]
    slow = dict([re.search(r"\$ (\S+)=(\S+) procession worker", page).groups()])
    assert len(blocks) == 4

    for block in blocks:
        given(dict.fromkeys(SMTP | RESEND, ""), block)
        assert read("worker")

    given(blocks[0], slow)
    assert f"  {faults()[0]}\n" in page
