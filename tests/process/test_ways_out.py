"""A mail and a request with a token, by real commands, with what their pages say to set."""

import json
import re
import shlex
import ssl
from pathlib import Path

import httpx2
import pytest
from fix_api import add_key
from fix_ledger import CLIENT_ID, CLIENT_SECRET
from fix_process import KEYS
from fix_worker import finished, free_port

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
NEAR = {"OUTBOUND__ALLOWED_NETWORKS": "127.0.0.0/8", "SECRETS__KEYS": KEYS}


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
async def api(command, database, conn):
    """A caller of an API that is a process, with a content type of its own."""
    port = await free_port()
    where = {"DATABASE_URL": database.url, "HOST": "127.0.0.1", "PORT": port}
    process = await command("procession", "api", **where, **NEAR, LOG__FORMAT="text")
    await process.until("Listening on")
    headers = {"Authorization": f"Bearer {await add_key(conn)}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        await put(client, "content-types/Article", {"fields": {"Title": {}, "Email": {}}})
        yield client


async def put(client, path, body):
    answer = await client.put(f"/api/{path}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


async def fired(client, action, data):
    """The run of a workflow with this one action, once it has ended."""
    workflow = {
        "name": "Tell",
        "triggerContentTypes": ["Article"],
        "triggerEvents": ["Created"],
        "actions": [action],
    }
    made = await client.post("/api/workflows", json=workflow)
    assert made.status_code == 201, made.text
    saved = await put(client, "entries/Article/a-17", {"data": data})
    return await finished(client, saved["runIds"][0])


@pytest.fixture
async def relay(make_relay, authority):
    """Is localhost, secured by STARTTLS, and asks for a login."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return await make_relay(tls_context=context, require_starttls=True, auth_required=True)


async def test_a_mail_leaves_by_the_relay_of_the_page(api, work, relay, authority, tmp_path):
    settings = dict(one.split("=", 1) for one in shlex.split(blocks("messages.md", "sh")[0]))
    login = (settings["EMAIL__SMTP__USERNAME"], settings["EMAIL__SMTP__PASSWORD"])
    relay.users = dict([login])
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    here = {"EMAIL__SMTP__HOST": "localhost", "EMAIL__SMTP__PORT": relay.port}
    await work(**settings | here, SSL_CERT_FILE=trusted)
    parameters = {
        "To": "{{data.Title}} <{{data.Email}}>",
        "Subject": "{{data.Title}} is published",
        "Body": "<p>{{data.Title}}</p>",
    }

    action = {"type": "Email", "parameters": parameters}
    run = await fired(api, action, {"Title": "Ann", "Email": "ann@example.org"})

    assert run["status"] == "Succeeded", run
    (taken,) = relay.taken
    assert (taken.sender, taken.recipients) == ("desk@example.com", ["ann@example.org"])
    assert taken.secured
    assert taken.login == login
    assert b"Subject: Ann is published\r\n" in taken.content


async def test_an_api_behind_oauth_is_called_as_the_page_says(api, work, ledger):
    await work()
    connector, request, action = map(json.loads, blocks("connectors.md", "json"))
    connector["baseUrl"] = f"{ledger.url}/v1"
    connector["settings"] |= {"tokenUrl": f"{ledger.url}/token", "clientId": CLIENT_ID}
    connector["secrets"]["clientSecret"] = CLIENT_SECRET

    await put(api, "connectors/ledger", connector)
    probed = (await api.post("/api/connectors/ledger/test")).json()
    await put(api, f"requests/{action['parameters']['Request']}", request)
    run = await fired(api, action, {"Title": "A “good” one"})
    sent = (await api.get("/api/webhook-deliveries")).json()["items"]

    assert run["status"] == "Succeeded", run
    assert (probed["ok"], probed["status"]) == (True, 200)
    (_, pinged, _, _), (method, path, headers, body) = ledger.booked
    assert (pinged, method, path) == ("/v1/ping", "POST", "/v1/invoices?entry=a-17")
    assert json.loads(body) == {"title": "A “good” one", "note": "For A “GOOD” ONE"}
    assert headers["x-source"] == "Article"
    assert headers["idempotency-key"] == f"{run['id'].replace('-', '')}-0"
    assert [one.get("scope") for one in ledger.grants] == ["invoices", "invoices"]
    assert [(one["url"], one["requestSlug"], one["responseStatus"]) for one in sent] == [
        (ledger.url, "book-invoice", 200)
    ]
    assert not [one for one in (*ledger.given, CLIENT_SECRET) if one in json.dumps(sent)]
