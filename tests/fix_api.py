"""The application in process, and the keys that call it."""

import hashlib
import secrets
import string

import httpx2
import pytest

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.engine.workflow import ActionDefinition, Definition
from procession.queue import workflows
from procession.queue.ids import uuid7
from procession.queue.sealing import Ring

CONTROL = "control-token-of-the-tests-0123456789"
RING = Ring({"tests": bytes(range(32))})
SIGNS = string.ascii_letters + string.digits


def _text(length):
    return "".join(secrets.choice(SIGNS) for _ in range(length))


async def add_tenant(conn, slug):
    await conn.execute(
        "insert into tenant (slug, name) values (%s, %s) on conflict do nothing", (slug, slug)
    )


async def add_key(conn, tenant="default", role="Admin"):
    """A key of the tenant, as its bearer shows it."""
    key_id, secret = _text(12), _text(43)
    await add_tenant(conn, tenant)
    await conn.execute(
        "insert into api_key (tenant, id, name, role, secret_digest) values (%s, %s, %s, %s, %s)",
        (tenant, key_id, f"key of {role}", role, hashlib.sha256(secret.encode()).digest()),
    )
    return f"prc_{key_id}_{secret}"


@pytest.fixture
def app(pool):
    catalogue = load(built_in(), []).catalogue()
    services = Services(pool=pool, ring=RING, control_tokens=(CONTROL,), catalogue=catalogue)
    return create_app(services)


def client_of(app, headers=None, **transport):
    """A caller of the application as it is, without a network between."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app, **transport),
        base_url="http://procession",
        headers=headers,
    )


@pytest.fixture
async def client(app):
    """A caller without a credential."""
    async with client_of(app) as made:
        yield made


@pytest.fixture
async def call(app, conn):
    """Make a client that calls as a role of a tenant: `await call("Viewer", "acme")`."""
    made = []

    async def caller(role="Admin", tenant="default", **headers):
        token = await add_key(conn, tenant, role)
        client = client_of(app, {"Authorization": f"Bearer {token}", **headers})
        made.append(client)
        return client

    yield caller
    for one in made:
        await one.aclose()


@pytest.fixture
async def admin(call):
    return await call("Admin")


@pytest.fixture
async def control(app):
    """A holder of the control token, who names tenants itself."""
    async with client_of(app, {"Authorization": f"Bearer {CONTROL}"}) as made:
        yield made


ARTICLE = {
    "fields": {
        "Title": {},
        "Language": {},
        "Price": {"type": "money"},
        "Rank": {"type": "number"},
        "Live": {"type": "boolean"},
        "Day": {"type": "date"},
        "Extra": {"type": "json"},
        "Author": {"type": "reference"},
        "Note": {"sensitivity": "Sensitive"},
        "Secret": {"sensitivity": "Hidden"},
    },
    "lifecycle": {
        "statuses": ["Draft", "Review", "Published", "Archived"],
        "transitions": {
            "Submit": {"from": ["Draft"], "to": "Review"},
            "Approve": {"from": ["Review"], "to": "Published"},
            "Recall": {"from": ["Published"], "to": "Draft"},
        },
    },
}


async def declare(client, name="Article", body=ARTICLE):
    answer = await client.put(f"/api/content-types/{name}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


async def add_workflow(conn, *events, tenant="default", content_types=("Article",), **parts):
    """A workflow with one webhook that answers to these events; its id."""
    definition = Definition(
        name=parts.pop("name", "Announce"),
        trigger_content_types=content_types,
        trigger_events=events,
        actions=(ActionDefinition(type="Webhook", parameters={"Url": "https://example.org"}),),
        **parts,
    )
    made = await workflows.insert(conn, tenant, uuid7(), definition, enabled=True)
    return str(made.id)
