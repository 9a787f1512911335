"""Whatever the description lets one send, to a real server, in sight of another tenant.

Requests are made from /openapi.json, right ones and wrong ones, with ids of things of one's own and
of the other tenant among them. No answer may be one that the description does not name.
"""

import asyncio
from dataclasses import dataclass

import pytest
import requests
import schemathesis
from fix_api import RING, add_key, declare
from fix_runs import add_run, add_workflow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as of_openapi

from procession.actions.load import built_in, load
from procession.api import refusals
from procession.api.app import create_app
from procession.api.entries import EntryView, SavedView
from procession.api.examples import EXAMPLES
from procession.api.run_view import RunView
from procession.api.services import Services
from procession.api.workflow_view import WorkflowView
from procession.app.server import Address, listening
from procession.engine.run import Action, Status

HIDDEN = "zqvzqv"  # a word in all that the other tenant has, but for what it is asked for by


@dataclass(frozen=True)
class World:
    """Where to send to, as whom, and what there is."""

    url: str
    token: str
    ids: dict[str, list[str]]


async def here(_):
    """Every name leads to this machine, which the guard refuses at once."""
    return ["127.0.0.1"]


@pytest.fixture
def app(pool, make_client):
    catalogue = load(built_in(), []).catalogue()
    prober = make_client(allowed=(), resolve=here)
    return create_app(Services(pool=pool, ring=RING, catalogue=catalogue, prober=prober))


async def furnished(conn, call, tenant, word):
    """A tenant with one of everything, with this word in it; its ids by what they are of."""
    client = await call("Admin", tenant)
    await client.put(f"/api/tenants/{tenant}", json={"name": word})
    fields = {"fields": {"Title": {}, word: {}}}
    await declare(client, f"A{tenant}", fields)
    await client.put(f"/api/roles/R{tenant}", json={"capabilities": ["read_entries"]})
    key = (await client.post("/api/keys", json={"name": word, "role": f"R{tenant}"})).json()
    link = {"name": word, "baseUrl": f"https://{word}.example", "auth": "None"}
    await client.put(f"/api/connectors/{tenant}", json=link)
    stored = {"name": word, "connectorSlug": tenant, "pathTemplate": f"/{word}"}
    await client.put(f"/api/requests/{tenant}", json=stored)
    flow = {
        "name": word,
        "triggerContentTypes": [f"A{tenant}"],
        "triggerEvents": ["Created"],
        "actions": [{"type": "Webhook", "parameters": {"Url": f"https://{word}.example"}}],
    }
    made = await client.post("/api/workflows", json=flow)
    entry = {"data": {"Title": word}}
    saved = await client.put(f"/api/entries/A{tenant}/{tenant}", json=entry)
    old = await add_workflow(conn, tenant=tenant)
    failed = Action(status=Status.FAILED, attempts=1, retryable=False)
    named = {"tenant": tenant, "workflow_name": word, "entry_id": tenant}
    run = await add_run(conn, old, Action(status=Status.SUCCEEDED, attempts=1), failed, **named)
    return {
        "workflow": [made.json()["id"], str(old)],
        "run": [*saved.json()["runIds"], str(run)],
        "entry": [tenant],
        "type": [f"A{tenant}"],
        "slug": [tenant],
        "role": [f"R{tenant}"],
        "key": [key["id"]],
        "tenant": [tenant],
    }


# What a parameter of this name holds, by the beginning of its path.
HELD = {
    "/api/workflows": {"id": "workflow", "contentType": "type"},
    "/api/workflow-runs": {"id": "run", "workflowId": "workflow", "entryId": "entry"},
    "/api/webhook-deliveries": {"workflowId": "workflow", "runId": "run"},
    "/api/entries": {"id": "entry", "contentType": "type"},
    "/api/content-types": {"name": "type"},
    "/api/connectors": {"slug": "slug"},
    "/api/requests": {"slug": "slug"},
    "/api/roles": {"name": "role"},
    "/api/keys": {"id": "key"},
    "/api/tenants": {"slug": "tenant"},
    "/api/audit": {"targetId": "run"},
}


def known(data, case, ids):
    """The case with some of its ids those of things that there are."""
    held = next((found for path, found in HELD.items() if case.path.startswith(path)), {})
    for part in (case.path_parameters, case.query):
        for name in (part or {}).keys() & held.keys():
            some = ids[held[name]]
            part[name] = data.draw(st.sampled_from([part[name], *some, *some]))


def check(case, answer):
    """Whatever the stock checks do not see."""
    if answer.status_code >= 400 and case.path.startswith("/api/"):
        documented = case.operation.definition.raw["responses"][str(answer.status_code)]
        problem = documented["content"]["application/problem+json"]
        assert answer.json()["code"] in problem["examples"], answer.text
    assert HIDDEN not in answer.text + str(answer.headers)


RIGHT = [
    checks.not_a_server_error,
    of_openapi.status_code_conformance,
    of_openapi.content_type_conformance,
    of_openapi.response_headers_conformance,
    of_openapi.response_schema_conformance,
    of_openapi.negative_data_rejection,
]
FINDS_FAULTS = {"validate_workflow"}  # and answers 200 with them


def attack(operation, mode, world, session, examples):
    """Send this operation so many requests."""

    rejects = operation.definition.raw["operationId"] not in FINDS_FAULTS

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode), data=st.data())
    def sent(case, data):
        if mode is GenerationMode.POSITIVE:  # or what was made wrong would be put right
            known(data, case, world.ids)
        headers = {"Authorization": f"Bearer {world.token}"}
        answer = case.call(base_url=world.url, headers=headers, session=session)
        case.validate_response(answer, checks=RIGHT if rejects else RIGHT[:-1])
        check(case, answer)

    sent()


def attack_all(document, world, examples):
    schema = schemathesis.openapi.from_dict(document)
    failures = {}
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            for mode in GenerationMode:
                try:
                    attack(operation, mode, world, session, examples)
                except Unsatisfiable:  # nothing can be wrong about what takes nothing
                    continue
                except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  all are shown
                    failures[f"{operation.label} {mode}"] = str(error)
    return failures


KEPT = (
    "tenant role api_key content_type entry workflow workflow_version run attempt audit"
    " connector request_definition delivery procrastinate_jobs"
)


async def all_of(conn, tenant):
    """Every row of a tenant."""
    rows = {}
    for table in KEPT.split():
        column = {"tenant": "slug", "procrastinate_jobs": "queue_name"}.get(table, "tenant")
        cursor = await conn.execute(
            f"select row_to_json(t)::text from {table} as t where {column} = %s", [tenant]
        )
        rows[table] = sorted(row for (row,) in await cursor.fetchall())
    return rows


@pytest.fixture
async def document(client):
    return (await client.get("/openapi.json")).json()


@pytest.fixture
async def furnish(conn, call):
    """Two tenants; the ids of what they have, by what they are of."""
    ours = await furnished(conn, call, "acme", "owned")
    theirs = await furnished(conn, call, "globex", HIDDEN)
    return {name: [*ours[name], *theirs[name]] for name in ours}


@pytest.mark.parametrize(
    "attempted",
    [
        ("Admin", 2),
        pytest.param(("Admin", 30), marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
        pytest.param(("Viewer", 10), marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(("Nobody", 5), marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
async def test_no_request_is_answered_in_a_way_that_is_not_described(
    app, conn, document, furnish, attempted
):
    role, examples = attempted
    token = "prc_x" if role == "Nobody" else await add_key(conn, "acme", role)
    before = await all_of(conn, "globex")

    async with listening(app, Address("127.0.0.1", 0), 1) as where:
        world = World(f"http://127.0.0.1:{where.port}", token, furnish)
        failures = await asyncio.to_thread(attack_all, document, world, examples)

    assert failures == {}
    assert await all_of(conn, "globex") == before


async def test_each_route_says_what_it_refuses(document):
    operations = {
        one["operationId"]: one
        for path, found in document["paths"].items()
        for one in found.values()
        if path.startswith("/api/")
    }

    assert refusals.OF.keys() == operations.keys()
    for one in operations.values():
        assert one["summary"]
        assert one["security"]
        assert {"401", "403", "500", "503"} <= one["responses"].keys()
        assert "default" not in one["responses"]
        named = [parameter for parameter in one.get("parameters", []) if parameter["in"] == "query"]
        assert [each["name"] for each in named if "description" not in each] == []


SENT = [
    ("put", "/api/content-types/Article", "ContentTypeBody"),
    ("post", "/api/workflows", "WorkflowBody"),
    ("put", "/api/entries/Article/a-17", "EntryBody"),
    ("put", "/api/connectors/ledger", "ConnectorBody"),
    ("put", "/api/requests/book-invoice", "RequestBody"),
    ("put", "/api/roles/Reader", "RoleBody"),
    ("post", "/api/keys", "KeyBody"),
    ("put", "/api/tenants/default", "TenantBody"),
]


async def test_each_body_that_is_shown_is_taken(admin, document):
    for method, path, name in SENT:
        (example,) = document["components"]["schemas"][name]["examples"]
        answer = await admin.request(method, path, json=example)
        assert answer.status_code in {200, 201}, answer.text
    flow = (await admin.get("/api/workflows")).json()["items"][0]
    (example,) = document["components"]["schemas"]["EnabledBody"]["examples"]
    assert (await admin.put(f"/api/workflows/{flow['id']}/enabled", json=example)).is_success


def test_each_answer_that_is_shown_is_one():
    for shape in (EntryView, SavedView, RunView, WorkflowView):
        example = EXAMPLES[shape.__name__]
        assert shape.model_validate(example).model_dump(mode="json", by_alias=True) == example
