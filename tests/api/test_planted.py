"""Secrets are planted wherever one may be, in every form, and then looked for in all that is kept,
said and answered."""

import base64
import contextlib
import json
import logging
import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from fix_api import RING, declare
from fix_planted import FORMS, found_in, lines_of, rows_of
from fix_queue import Heard, running

from procession.actions import Action, Failed, Parameter, Skipped, Succeeded, Unknown
from procession.actions.load import built_in
from procession.actions.registry import Registry
from procession.api.app import create_app
from procession.api.services import Services
from procession.app.runner import Options, Runner
from procession.queue.types import Recorded

SECRET = "whsec_" + base64.b64encode(b"planted: nobody must ever see it").decode()
KEY = "correct horse/battery+staple"  # nothing that looks like a credential
PATH = "hooks-4f9a/b61c"  # an address may hold one too
PLANTED = {"secret": SECRET, "key": KEY, "path": PATH}
PLACES = {
    "at the start": 0,
    "before the 500th character": 490,
    "at the 500th character": 500 - len(KEY) // 2,
    "at the 4,096th byte": 4096 - 40,
}


def wordy(length):
    return ("so it went on " * (length // 14 + 1))[:length]


class Careless(Action):
    """Says and raises whatever it knows."""

    parameters = (Parameter("ApiKey", credential=True), Parameter("How"))
    outputs = ("note",)
    repeatable = True
    form, at = str, 0

    async def perform(self, context, parameters):
        said = wordy(self.at) + self.form(parameters["ApiKey"]) + " and so on"
        match parameters["How"]:
            case "raise":
                raise ValueError(said)
            case "log":
                logging.getLogger("library.of.others").warning("Bearer %s", "prc_abcdefgh12345")
                return Succeeded({"note": "fine"})
            case "fail":
                return Failed(said, retryable=False)
            case "doubt":
                return Unknown(said)
            case _:
                return Skipped(said)


@pytest.fixture
def careless():
    return Careless()


@pytest.fixture
def registry(careless):
    ours = built_in(allow_insecure_signed_urls=True)
    return Registry({**ours, "Careless": careless})


@pytest.fixture
def app(pool, registry):
    return create_app(
        Services(pool=pool, ring=RING, catalogue=registry.catalogue(), insecure_signed_urls=True)
    )


@pytest.fixture
def working(database, pool, registry, make_client):
    @contextlib.asynccontextmanager
    async def run():
        heard = Heard()
        options = Options(database=database, ring=RING, concurrency=5, grace=timedelta(seconds=5))
        runner = Runner(pool, options, registry, make_client(), tell=heard)
        async with running(runner):
            yield heard

    return run


def echo(receiver, form, at):
    """Answers with all that it was sent, and with what it may know besides."""

    async def act(writer):
        came = receiver.received[-1]
        told = " ".join(form(one) for one in (SECRET, SECRET[6:])) + json.dumps(came.headers)
        body = (wordy(at) + told).encode()
        writer.write(b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    return act


WAYS = ("raise", "log", "fail", "doubt", "skip")


async def fired(admin, receiver):
    """The id of a run of every careless thing there is."""
    actions = [
        {
            "type": "Webhook",
            "parameters": {"Url": receiver.url(f"/{PATH}?key={quote(KEY)}"), "Secret": SECRET},
        },
        *({"type": "Careless", "parameters": {"ApiKey": KEY, "How": how}} for how in WAYS),
    ]
    actions = [{**one, "onFailure": "Continue"} for one in actions]
    workflow = {
        "name": "Careless",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": actions,
    }
    made = await admin.post("/api/workflows", json=workflow)
    assert made.status_code == 201, made.text
    saved = await admin.put("/api/entries/Article/a-1", json={"data": {"Title": "One"}})
    return made, saved.json()["runIds"][0]


async def answers_of(admin, seer, run_id):
    paths = [
        "/api/workflows",
        "/api/workflow-runs",
        f"/api/workflow-runs/{run_id}",
        "/api/audit",
        "/api/workflows/health",
        "/api/webhook-deliveries",
    ]
    answers = [await client.get(path) for client in (admin, seer) for path in paths]
    return [one.text for one in answers if one.status_code == 200]


@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_nothing_that_was_planted_is_found(  # noqa: PLR0913, PLR0917
    conn, call, admin, receiver, careless, working, caplog, form, at
):
    caplog.set_level(logging.INFO)
    seer = await call("Seer")
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Seer', '{*}')"
    )
    await declare(admin)
    careless.form, careless.at = form, at
    receiver.will(echo(receiver, form, at))
    made, run_id = await fired(admin, receiver)

    async with working() as heard:
        await heard.wait(Recorded, 1 + len(WAYS))

    lines, rows = lines_of(caplog), await rows_of(conn)
    answered = await answers_of(admin, seer, run_id)
    keys = [SECRET, SECRET[6:], KEY]
    assert found_in(rows, [*keys, PATH]) == []
    assert found_in(lines, [*keys, PATH, "prc_abcdefgh12345"]) == []
    assert found_in([made.text, *answered], keys) == []
    assert any("responseBody" in one for one in answered)
    cursor = await conn.execute("select definition::text from workflow_version")
    assert found_in([row for (row,) in await cursor.fetchall()], keys) == []


def test_the_search_finds_what_is_there():
    for text in (SECRET, KEY):
        for form in FORMS.values():
            assert found_in([f"before {form(text)} after"], [text])
    assert re.search("[A-Z]", SECRET)
