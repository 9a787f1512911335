"""Secrets of connectors and providers, told back by whoever they were shown to."""

import asyncio
import base64
import json
import logging
from collections import deque
from datetime import timedelta
from urllib.parse import quote

import pytest
from fix_api import RING, declare
from fix_planted import FORMS, found_in, lines_of, rows_of
from fix_queue import Heard
from fix_receiver import LOOPBACK, answer
from fix_relay import reply

from procession.actions.email import Email
from procession.actions.load import built_in
from procession.actions.registry import Registry
from procession.actions.request import Stored, kept_in
from procession.actions.revalidate_cache import Vercel
from procession.api.app import create_app
from procession.api.services import Services
from procession.app.runner import Options, Runner
from procession.outbound.mail import Mailer
from procession.outbound.mailbox import mailbox
from procession.outbound.oauth import Tokens
from procession.outbound.resend import Resend
from procession.outbound.retry import Tries
from procession.outbound.sms import Twilio
from procession.queue.types import Recorded

DESK = mailbox("desk@example.com")
NAMES = ("password", "apiKey", "clientSecret", "granted", "smtp", "resend", "twilio", "vercel")
# nothing in them looks like a credential
PLANTED = {name: f"mild/{name}+wind%blows {name[::-1]}" for name in NAMES}
PLANTED["granted"] = "granted/mild+wind~blows.everywhere"
ONCE = Tries(retries=0)


@pytest.fixture
async def refusing(make_relay):
    """A relay that says the password it was shown, with its refusal."""
    relay = await make_relay(auth_require_tls=False)
    relay.users = {"desk": PLANTED["smtp"]}
    relay.will("RCPT", reply(f"550 5.7.1 no: {told_back('smtp')}"))
    return relay


@pytest.fixture
def registry(pool, receiver, refusing, by):
    base = receiver.url().rstrip("/")
    smtp = by(refusing, username="desk", password=PLANTED["smtp"])
    resend = Resend(api_key=PLANTED["resend"], base=base)
    twilio = {"sender": "Desk", "account_sid": "AC1", "auth_token": PLANTED["twilio"]}
    vercel = {"token": PLANTED["vercel"], "team_id": "t", "project_id": "p"}
    ours = built_in(
        mailer=Mailer(smtp, DESK, ONCE),
        requests=Stored(kept_in(pool), RING, Tokens()),
        texts=Twilio(**twilio, base=base),
        vercel=Vercel(**vercel, base=base),
    )
    return Registry({**ours, "Resent": Email(Mailer(resend, DESK, ONCE))})


@pytest.fixture
def app(pool, registry):
    services = {"catalogue": registry.catalogue(), "allowed_networks": LOOPBACK}
    return create_app(Services(pool=pool, ring=RING, **services))


def told_back(name):
    return " ".join(form(PLANTED[name]) for form in FORMS.values())


def telling(receiver, name, status=400):
    """Answers with what it was sent, and with the secret in every form."""

    async def act(writer):
        shown = receiver.received[-1].headers
        kind, _, pair = shown.get("authorization", "").partition(" ")
        pair = base64.b64decode(pair) if kind == "Basic" else b""
        body = f"{json.dumps(shown)} {pair!r} {told_back(name)}".encode()
        away = ("Location", f"http://127.0.0.1/?it={quote(PLANTED[name])}")
        await answer(status, body, [away])(writer)

    return act


def json_of(status, **said):
    return answer(status, json.dumps(said).encode())


CLIENT = {"tokenUrl": "", "clientId": "us"}
CONNECTORS = {
    "basic": ("Basic", {"username": "us"}, "password"),
    "key": ("ApiKeyHeader", {"headerName": "X-Odd"}, "apiKey"),
    "granted": ("OAuth2ClientCredentials", CLIENT, "clientSecret"),
    "refused": ("OAuth2ClientCredentials", CLIENT, "clientSecret"),
}


async def connect(admin, receiver):
    for slug, (auth, settings, secret) in CONNECTORS.items():
        known = settings | ({"tokenUrl": receiver.url("/token")} if "tokenUrl" in settings else {})
        connector = {"name": slug, "baseUrl": receiver.url(), "auth": auth, "settings": known}
        secrets = {"secrets": {secret: PLANTED[secret]}}
        made = await admin.put(f"/api/connectors/{slug}", json=connector | secrets)
        assert made.status_code == 201, made.text
        request = {"name": slug, "connectorSlug": slug, "pathTemplate": "/books"}
        assert (await admin.put(f"/api/requests/{slug}", json=request)).status_code == 201
        yield made.text


def script(receiver):
    """What is answered to each action in its turn."""
    no = {"error": PLANTED["clientSecret"], "error_description": told_back("clientSecret")}
    receiver.will(
        telling(receiver, "password"),
        telling(receiver, "apiKey", 302),
        json_of(200, access_token=PLANTED["granted"], token_type="Bearer"),
        telling(receiver, "granted"),
        json_of(400, **no),
        telling(receiver, "resend"),
        telling(receiver, "twilio"),
        telling(receiver, "vercel"),
    )


MAIL = {"To": "ann@example.org", "Subject": "Hello", "Body": "<p>Hello</p>"}
ACTIONS = [
    *(("Request", {"Request": slug}) for slug in CONNECTORS),
    ("Email", MAIL),
    ("Resent", MAIL),
    ("Sms", {"To": "+639171234567", "Message": "Hello"}),
    ("RevalidateCache", {"Tags": "home"}),
]


async def test_no_secret_that_is_told_back_is_kept_said_or_answered(  # noqa: PLR0913, PLR0917
    conn, pool, database, admin, receiver, registry, make_client, caplog
):
    caplog.set_level(logging.DEBUG)
    await declare(admin)
    answered = [text async for text in connect(admin, receiver)]
    actions = [
        {"type": type_, "parameters": given, "onFailure": "Continue"} for type_, given in ACTIONS
    ]
    workflow = {"triggerContentTypes": ["Article"], "triggerEvents": ["Created"]}
    made = await admin.post("/api/workflows", json={"name": "Tell", **workflow, "actions": actions})
    assert made.status_code == 201, made.text
    script(receiver)
    saved = await admin.put("/api/entries/Article/a-1", json={"data": {"Title": "One"}})
    (run_id,) = saved.json()["runIds"]

    heard, stop = Heard(), asyncio.Event()
    options = Options(database=database, ring=RING, grace=timedelta(seconds=5))
    runner = Runner(pool, options, registry, make_client(tries=ONCE), tell=heard)
    working = asyncio.create_task(runner.run(stop))
    await heard.wait(Recorded, len(ACTIONS))
    stop.set()
    await working

    assert receiver.script == deque()
    run = await admin.get(f"/api/workflow-runs/{run_id}")
    assert {one["status"] for one in run.json()["actions"]} <= {"Failed", "Pending"}
    others = [await admin.get(f"/api/{path}") for path in ("webhook-deliveries", "connectors")]
    answered += [one.text for one in (run, *others)]
    rows = await rows_of(conn)
    assert sum("[redacted]" in row for row in rows) >= len(CONNECTORS) - 1
    assert found_in(rows, PLANTED.values()) == []
    assert found_in(lines_of(caplog), PLANTED.values()) == []
    assert found_in(answered, PLANTED.values()) == []
