"""Every route there is: it needs a credential, a tenant, and the one capability that it should."""

import uuid

from fastapi.routing import APIRoute
from fix_api import client_of

from procession.api.app import ROUTERS, create_app
from procession.api.services import Services
from procession.engine.access import CAPABILITIES

FILLED = {
    "id": str(uuid.UUID(int=1)),
    "version": "1",
    "ordinal": "0",
    "contentType": "Article",
    "name": "Approve",
    "slug": "acme",
}
WALKED = [
    (method, route.path)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.path.startswith("/api/")
    for method in sorted(route.methods)
]
ABOVE = {("GET", "/api/tenants"), ("GET", "/api/tenants/{slug}"), ("PUT", "/api/tenants/{slug}")}
OPEN_TO_ALL = {("GET", "/api/me")}

# As it is promised; `None` is for any caller.
PROMISED = {
    None: "GET /api/me",
    "manage_workflows": """
        POST /api/workflows
        GET /api/workflows
        GET /api/workflows/{id}
        GET /api/workflows/{id}/versions/{version}
        PUT /api/workflows/{id}
        PUT /api/workflows/{id}/enabled
        DELETE /api/workflows/{id}
        POST /api/workflows/validate
        POST /api/workflows/dry-run
        GET /api/workflows/actions
        GET /api/workflows/variables
        POST /api/workflow-runs/{id}/cancel
    """,
    "run_workflows": "POST /api/workflows/{id}/run",
    "view_workflow_runs": """
        GET /api/workflows/health
        GET /api/workflow-runs
        GET /api/workflow-runs/{id}
        GET /api/webhook-deliveries
    """,
    "retry_workflow_actions": """
        POST /api/workflow-runs/{id}/actions/{ordinal}/retry
        POST /api/workflow-runs/{id}/abandon
        POST /api/workflow-runs/{id}/force-end
    """,
    "manage_entries": """
        PUT /api/content-types/{name}
        DELETE /api/content-types/{name}
        PUT /api/entries/{contentType}/{id}
        POST /api/entries/{contentType}/{id}/transitions/{name}
        DELETE /api/entries/{contentType}/{id}
    """,
    "read_entries": """
        GET /api/content-types
        GET /api/content-types/{name}
        GET /api/entries/{contentType}/{id}
        GET /api/entries/{contentType}
    """,
    "manage_connectors": """
        PUT /api/connectors/{slug}
        DELETE /api/connectors/{slug}
        POST /api/connectors/{slug}/test
        PUT /api/requests/{slug}
        DELETE /api/requests/{slug}
    """,
    "view_connectors": """
        GET /api/connectors
        GET /api/connectors/{slug}
        GET /api/requests
        GET /api/requests/{slug}
    """,
    "manage_access": """
        POST /api/keys
        GET /api/keys
        DELETE /api/keys/{id}
        GET /api/roles
        PUT /api/roles/{name}
        DELETE /api/roles/{name}
    """,
    "view_audit_log": "GET /api/audit",
}


async def ask(client, method, path):
    return await client.request(method, path.format_map(FILLED))


async def role_of(admin, *capabilities):
    """A role that holds these and no more."""
    name = f"R{uuid.uuid4().hex}"
    answer = await admin.put(f"/api/roles/{name}", json={"capabilities": list(capabilities)})
    assert answer.status_code == 201
    return name


def said(answer):
    return answer.status_code, answer.json()["code"]


async def test_a_promised_route_is_open_to_its_capability_and_to_no_other(admin, call):
    for capability, routes in PROMISED.items():
        alone = await call(await role_of(admin, *([capability] if capability else [])))
        others = [one for one in CAPABILITIES if one != capability]
        without = await call(await role_of(admin, *others))
        for line in routes.strip().splitlines():
            method, path = line.split()

            let_in, refused = await ask(alone, method, path), await ask(without, method, path)

            assert let_in.status_code not in {401, 403, 405}, line
            assert b"route-not-found" not in let_in.content, line
            if capability is None:
                assert refused.status_code == 200
            else:
                assert said(refused) == (403, "forbidden"), line
                assert refused.json()["capability"] == capability, line


async def test_no_route_is_open_without_a_credential(pool):
    for method, path in WALKED:
        app = create_app(Services(pool=pool))  # a new one, which has refused nobody yet
        async with client_of(app) as client:
            answer = await ask(client, method, path)

        assert said(answer) == (401, "unauthenticated"), path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["cache-control"] == "no-store"


async def test_no_route_is_open_without_a_tenant_nor_for_another_one(control, admin):
    for method, path in WALKED:
        if (method, path) in ABOVE:
            continue
        control.headers.pop("X-Tenant", None)
        without = await ask(control, method, path)
        control.headers["X-Tenant"] = "nowhere"
        unknown = await ask(control, method, path)
        admin.headers["X-Tenant"] = "acme"
        foreign = await ask(admin, method, path)

        assert [said(one) for one in (without, unknown, foreign)] == [
            (400, "tenant-required"),
            (404, "tenant-not-found"),
            (403, "tenant-mismatch"),
        ], path


async def test_no_route_is_open_to_a_role_that_holds_nothing(admin, call):
    nobody = await call(await role_of(admin))
    for method, path in WALKED:
        answer = await ask(nobody, method, path)

        assert (answer.status_code == 403) is ((method, path) not in OPEN_TO_ALL), path
        assert answer.headers["cache-control"] == "no-store"
