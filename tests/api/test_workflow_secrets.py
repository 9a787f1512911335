"""The credentials of a workflow, from a save to the receiver: sealed in every row on the way."""

import asyncio
import json
from datetime import timedelta

import pytest
from fix_api import RING
from fix_queue import Heard
from fix_requests import ONCE

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.app.runner import Options, Runner
from procession.queue.sealing import Ring
from procession.queue.types import Recorded

PLANTED = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA=="
OTHER = "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItb3Ro"


def hook(receiver, secret=PLANTED):
    return {"type": "Webhook", "parameters": {"Url": receiver.url("/hook"), "Secret": secret}}


def body(receiver, secret=PLANTED):
    one = hook(receiver, secret)
    nested = {
        "Condition": "{{status}} == Published",
        "ThenActions": json.dumps([one, one]),
        "ElseActions": "[]",
    }
    return {
        "name": "Announce",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Published"],
        "actions": [{**one, "compensate": one}, {"type": "Conditional", "parameters": nested}],
    }


@pytest.fixture
def app(pool):
    catalogue = load(built_in(), []).catalogue()
    return create_app(
        Services(pool=pool, ring=RING, catalogue=catalogue, insecure_signed_urls=True)
    )


@pytest.fixture
async def flow(admin, receiver):
    """A workflow with a planted secret in every place that one may have."""
    assert (await admin.put("/api/content-types/Article", json={})).status_code == 201
    made = await admin.post("/api/workflows", json=body(receiver))
    assert made.status_code == 201, made.text
    return made.json()


@pytest.fixture
def worked(database, pool, make_client, admin):
    """Publishes, performs what that queues, and gives back the run."""

    async def publish_and_work(ring=RING):
        heard, stop = Heard(), asyncio.Event()
        options = Options(database=database, grace=timedelta(seconds=5), ring=ring)
        registry = load(built_in(allow_insecure_signed_urls=True), [])
        runner = Runner(pool, options, registry, make_client(tries=ONCE), tell=heard)
        task = asyncio.create_task(runner.run(stop))
        article = {"status": "Published", "data": {}}
        saved = (await admin.put("/api/entries/Article/a1", json=article)).json()
        await heard.wait(Recorded, 2)
        stop.set()
        await task
        return (await admin.get(f"/api/workflow-runs/{saved['runIds'][0]}")).json()

    return publish_and_work


async def rows(conn):
    """Every row of every table, as text."""
    cursor = await conn.execute(
        "select table_name from information_schema.tables where table_schema = current_schema"
    )
    found = []
    for (table,) in await cursor.fetchall():
        cursor = await conn.execute(f"select row_to_json(one)::text from {table} as one")
        found += [text for (text,) in await cursor.fetchall()]
    return "\n".join(found)


async def test_a_secret_reaches_the_receiver_and_nothing_else(  # noqa: PLR0913, PLR0917
    conn, admin, receiver, flow, worked, caplog
):
    caplog.set_level("DEBUG")

    run = await worked()

    answers = [
        json.dumps(flow),
        json.dumps(run),
        (await admin.get("/api/workflows")).text,
        (await admin.get(f"/api/workflows/{flow['id']}/versions/1")).text,
        (await admin.get("/api/audit")).text,
        (await admin.get("/api/webhook-deliveries")).text,
    ]
    assert run["status"] == "Succeeded"
    assert len(receiver.received) == 3
    assert all(one.headers["webhook-signature"] for one in receiver.received)
    raw = PLANTED.removeprefix("whsec_")
    for text in (await rows(conn), "".join(answers), caplog.text):
        assert raw[:20] not in text


async def test_the_same_secret_sent_again_changes_nothing(conn, admin, receiver, flow):
    path = f"/api/workflows/{flow['id']}"

    same = await admin.put(path, json=body(receiver))
    told = await admin.put(path, json=flow)
    other = await admin.put(path, json=body(receiver, OTHER))

    assert [one.json()["version"] for one in (same, told, other)] == [1, 1, 2]
    assert [one["credentialsSet"] for one in told.json()["actions"]] == [["Secret"], []]
    assert OTHER[10:30] not in await rows(conn)


async def test_one_that_is_kept_can_still_be_read(admin, receiver, flow, worked):
    path = f"/api/workflows/{flow['id']}"
    renamed = await admin.put(path, json={**flow, "name": "Renamed"})

    run = await worked()

    assert renamed.json()["version"] == 2
    assert run["status"] == "Succeeded"
    assert all(one.headers["webhook-signature"] for one in receiver.received)


@pytest.mark.usefixtures("flow")
async def test_one_that_no_key_opens_is_to_be_entered_again(receiver, worked):
    ring = Ring({"other": bytes(32)})

    run = await worked(ring)

    first, second = run["actions"]
    assert first["error"] == (
        "The credential Secret cannot be read by any key of this worker: add the key tests to"
        " SECRETS__KEYS, or enter it again."
    )
    assert first["retryable"] is False
    assert (second["error"], second["retryable"]) == (
        "Actions of the branch failed: Webhook.",
        False,
    )
    assert receiver.received == []


@pytest.mark.usefixtures("flow")
async def test_one_that_is_copied_elsewhere_cannot_be_read(conn, worked):
    await conn.execute("""
        update workflow_version set definition = jsonb_set(definition::jsonb,
            '{actions,0,parameters,Secret}',
            definition::jsonb #> '{actions,0,compensate,parameters,Secret}')
    """)

    run = await worked()

    assert run["actions"][0]["error"].startswith("The credential Secret cannot be read")
    assert run["actions"][1]["status"] == "Succeeded"


async def test_a_setting_of_another_action_does_not_take_a_secret_along(admin, flow):
    moved = json.loads(json.dumps(flow))
    moved["actions"][1]["parameters"]["Condition"] = "{{status}} == Draft"

    refused = await admin.put(f"/api/workflows/{flow['id']}", json=moved)

    assert refused.status_code == 400
    assert [one["name"] for one in refused.json()["errors"]] == [
        f"actions[1].parameters.ThenActions[{at}].parameters.Secret" for at in (0, 1)
    ]
