"""The page on connectors, followed by somebody who has never seen one."""

import json
import re
from pathlib import Path

import pytest
from fix_api import RING
from fix_ledger import CLIENT_ID, CLIENT_SECRET
from fix_receiver import LOOPBACK
from fix_requests import ONCE, Sender

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.engine.content_type import ContentType, Field
from procession.engine.outcome import Succeeded

PAGE = (Path(__file__).parents[2] / "docs/connectors.md").read_text(encoding="utf-8")
CONNECTOR, REQUEST, ACTION = (
    json.loads(one) for one in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
)


@pytest.fixture
def app(pool, make_client):
    catalogue = load(built_in(), []).catalogue()
    prober = make_client(tries=ONCE)
    services = Services(
        pool=pool, ring=RING, catalogue=catalogue, prober=prober, allowed_networks=LOOPBACK
    )
    return create_app(services)


@pytest.mark.parametrize(("path", "body"), [("connectors/ledger", CONNECTOR)])
async def test_what_the_page_shows_is_taken(admin, path, body):
    made = await admin.put(f"/api/{path}", json=body)

    assert made.status_code == 201
    assert made.json()["secretsSet"] == ["clientSecret"]


async def test_an_api_behind_oauth_is_connected_as_the_page_says(
    conn, pool, admin, ledger, make_client
):
    known = {"tokenUrl": f"{ledger.url}/token", "clientId": CLIENT_ID, "scope": "invoices"}
    here = {"baseUrl": f"{ledger.url}/v1", "settings": known}
    secrets = {"secrets": {"clientSecret": CLIENT_SECRET}}
    workflow = {
        "name": "Book",
        "triggerContentTypes": ["Invoice"],
        "triggerEvents": ["Created"],
        "actions": [ACTION],
    }
    sender = Sender(conn, pool, make_client)

    connected = await admin.put("/api/connectors/ledger", json=CONNECTOR | here | secrets)
    probed = await admin.post("/api/connectors/ledger/test")
    stored = await admin.put("/api/requests/book-invoice", json=REQUEST)
    saved = await admin.post("/api/workflows", json=workflow)
    outcome = await sender.outcome(slug="book-invoice", defined=ContentType({"Title": Field()}))

    assert [one.status_code for one in (connected, probed, stored, saved)] == [201, 200, 201, 201]
    assert (probed.json()["ok"], probed.json()["status"]) == (True, 200)
    assert [one["field"] for one in saved.json()["warnings"]] == ["triggerContentTypes[0]"]
    assert outcome == Succeeded(response_status=200)
    method, path, headers, body = ledger.booked[-1]
    assert (method, path, headers["x-source"]) == ("POST", "/v1/invoices?entry=a-17", "Article")
    assert json.loads(body) == {"title": "Hello", "note": "For HELLO"}
