"""The order of the checks, and that whatever goes wrong is a problem."""

import asyncio
import re
from dataclasses import replace

import pytest
from fix_api import CONTROL, add_key, client_of, declare
from fix_runs import add_run

from procession.api.app import ROUTERS, create_app
from procession.api.routes import Route, need_of
from procession.api.services import Services
from procession.queue.pool import make_pool

FIRST = "/api/entries/Article/a-1"
BROKEN = b'{"data": '
JSON = {"Content-Type": "application/json"}


async def test_a_path_that_does_not_exist_is_a_problem_after_authentication(client, admin):
    unknown = await client.get("/api/nowhere")
    known = await admin.get("/api/nowhere")

    assert (unknown.status_code, unknown.json()["code"]) == (401, "unauthenticated")
    assert unknown.headers["www-authenticate"] == "Bearer"
    assert (known.status_code, known.json()["code"]) == (404, "route-not-found")
    assert known.headers["content-type"] == "application/problem+json"
    assert known.headers["cache-control"] == unknown.headers["cache-control"] == "no-store"
    assert known.json() == {
        "type": "urn:procession:problem:route-not-found",
        "title": "The route does not exist",
        "status": 404,
        "detail": None,
        "instance": "/api/nowhere",
        "code": "route-not-found",
        "traceId": known.json()["traceId"],
    }


async def test_a_refusal_says_by_what_it_is_found_again(client, admin):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    begun = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    odd = {"traceparent": "00-zz-00f067aa0ba902b7-01", "X-Correlation-ID": "mine"}

    own = [
        (await one.get(path)).json()["traceId"]
        for one in (client, admin)
        for path in ("/api/nowhere", "/nowhere", "/api/workflow-runs/x", "/api/tenants")
    ]
    given = [
        (await one.get(path, headers=begun)).json()["traceId"]
        for one in (client, admin)
        for path in ("/api/nowhere", "/nowhere", "/api/workflow-runs/x", "/api/tenants")
    ]

    assert len(set(own)) == len(own)
    assert [one for one in own if not re.fullmatch("[0-9a-f]{32}", one)] == []
    assert set(given) == {trace}
    assert re.fullmatch("[0-9a-f]{32}", (await admin.get("/api/x", headers=odd)).json()["traceId"])


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/me/", "/api//me"])
async def test_no_path_under_api_is_open(client, admin, path):
    assert (await client.get(path)).status_code == 401
    assert (await admin.get(path)).json()["code"] == "route-not-found"


async def test_a_method_that_does_not_exist_names_those_that_do(client, admin):
    unknown = await client.post("/api/me")
    known = await admin.post("/api/me")

    assert unknown.status_code == 401
    assert (known.status_code, known.json()["code"]) == (405, "method-not-allowed")
    assert known.headers["allow"] == "GET"
    assert (await client.post("/openapi.json")).headers["allow"] == "GET, HEAD"
    several = await admin.patch(FIRST)
    assert (several.status_code, several.headers["allow"]) == (405, "DELETE, GET, PUT")


async def test_health_and_the_description_are_open(client):
    live = await client.get("/health/live")
    ready = await client.get("/health/ready")
    description = await client.get("/openapi.json")

    assert live.json() == {"status": "live"}
    assert ready.json() == {"status": "ready"}
    assert description.status_code == 200


@pytest.mark.parametrize("path", ["/", "/nowhere", "/apiary"])
async def test_who_comes_to_the_wrong_place_is_told_the_right_one(client, path):
    answer = await client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (404, "route-not-found")
    assert answer.json()["detail"] == "The API is under /api, and /openapi.json describes it."


async def test_the_description_has_the_bounds_of_numbers_and_the_headers_of_conditions(client):
    document = (await client.get("/openapi.json")).json()

    operations = [one for path in document["paths"].values() for one in path.values()]
    schemas = [one["schema"] for each in operations for one in each.get("parameters", [])]
    assert [one for one in schemas if one.keys() & {"ge", "gt", "le", "lt"}] == []
    entry = document["paths"]["/api/entries/{contentType}/{id}"]["put"]["parameters"]
    headers = {one["name"]: one["schema"] for one in entry if one["in"] == "header"}
    assert headers.keys() == {"If-Match", "If-None-Match"}
    for value in ("*", '"3"', '"3", "4"'):
        assert re.search(headers["If-Match"]["pattern"], value)
    listed = document["paths"]["/api/content-types"]["get"]["parameters"]
    bounds = {
        one["name"]: (one["schema"]["minimum"], one["schema"]["maximum"])
        for one in listed
        if one["in"] == "query"
    }
    assert bounds == {"page": (1, 999_999_999), "pageSize": (1, 100)}


async def test_a_process_that_is_not_ready_says_why(pool):
    async def reasons():
        return ["database", "stopping"]

    app = create_app(Services(pool=pool, reasons=reasons))
    async with client_of(app) as client:
        ready = await client.get("/health/ready")

    assert ready.status_code == 503
    assert ready.json() == {"status": "not-ready", "reasons": ["database", "stopping"]}


@pytest.mark.parametrize(
    ("headers", "body", "path", "refusal"),
    [
        # each request has all the faults of the ones below it
        ({"X-Tenant": "other"}, b"x" * 2_000_000, "/api/entries/Nope/x", (403, "tenant-mismatch")),
        ({}, b"x" * 2_000_000, "/api/entries/Nope/x", (413, "body-too-large")),
        ({}, BROKEN, "/api/entries/Nope/x", (415, "unsupported-media-type")),
        (JSON, BROKEN, "/api/entries/Nope/x", (400, "malformed-json")),
        (JSON, b'{"data": "\\u0000"}', "/api/entries/Nope/x", (400, "validation-failed")),
        (JSON, b'{"data": 1}', "/api/entries/Nope/x", (404, "content-type-not-found")),
        (JSON, b'{"data": 1}', FIRST, (400, "validation-failed")),
        (JSON, b'{"data": {}}', FIRST, (412, "version-mismatch")),
    ],
)
async def test_the_first_fault_in_the_order_of_the_checks_is_told(
    admin, headers, body, path, refusal
):
    await declare(admin)

    answer = await admin.put(path, headers={**headers, "If-Match": '"7"'}, content=body)

    assert (answer.status_code, answer.json()["code"]) == refusal


async def test_a_capability_is_checked_before_size_type_and_body(call):
    viewer = await call("Viewer")

    answer = await viewer.put("/api/entries/Nope/x", content=b"x" * 2_000_000)

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert answer.json()["capability"] == "manage_entries"


async def unread():
    pytest.fail("The body was read")


async def ask(app, headers, *, path=FIRST, receive=unread):
    """A PUT whose body comes from `receive`; its status."""
    status = []

    async def send(message):
        status.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "PUT",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("procession", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    await app(scope, receive, send)
    return status[0]


async def test_a_body_is_not_read_before_the_checks_that_precede_it(app, conn):
    admin = {"Authorization": f"Bearer {await add_key(conn)}", **JSON, "Content-Length": "9"}
    viewer = admin | {"Authorization": f"Bearer {await add_key(conn, role='Viewer')}"}

    assert await ask(app, JSON | {"Content-Length": "9"}) == 401
    assert await ask(app, admin | {"X-Tenant": "other"}) == 403
    assert await ask(app, viewer) == 403
    assert await ask(app, admin | {"Content-Length": "1048577"}) == 413
    assert await ask(app, admin | {"Content-Length": "-1"}) == 413
    assert await ask(app, admin | {"Content-Length": "9" * 5_000}) == 413
    assert await ask(app, admin | {"Content-Type": "text/plain"}) == 415
    assert await ask(app, admin, path="/api/nowhere") == 404


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(admin):
    async def endless():
        while True:
            yield b" " * 65536

    answer = await admin.put(FIRST, headers=JSON, content=endless())

    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("application/json", 404),
        ("Application/JSON; charset=UTF-8", 404),
        ('application/json; charset="utf-8"', 404),
        ("application/json; charset=latin-1", 415),
        ("application/merge-patch+json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
async def test_bodies_are_json_in_utf_8(admin, media_type, status):
    answer = await admin.put(
        "/api/entries/Nope/x", headers={"Content-Type": media_type}, content=b'{"data": {}}'
    )

    assert answer.status_code == status


async def test_a_body_that_is_missing_is_malformed(admin):
    answer = await admin.put(FIRST)

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed-json")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("page=0", "page"),
        ("page=-1", "page"),
        ("page=1.0", "page"),
        ("page=x", "page"),
        ("page=", "page"),
        (f"page={'9' * 5000}", "page"),
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=%2B5", "pageSize"),
    ],
)
async def test_a_page_out_of_range_is_refused_by_name_and_not_repeated(admin, query, name):
    answer = await admin.get(f"/api/content-types?{query}")

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == [name]
    assert answer.json()["errors"][0].keys() == {"name", "reason"}


@pytest.mark.parametrize("page", ["1000000000", "99999999999999999999"])
async def test_a_page_that_is_too_large_a_number_is_told_the_largest(admin, page):
    answer = await admin.get(f"/api/content-types?page={page}")

    assert [one["reason"] for one in answer.json()["errors"]] == ["must be at most 999999999"]
    assert (await admin.get("/api/content-types?page=999999999&pageSize=100")).status_code == 200


async def test_a_nul_in_a_query_is_refused_by_name(admin):
    await declare(admin)

    answer = await admin.get("/api/entries/Article?status=a%00")

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == ["status"]


async def test_a_caller_that_leaves_in_the_middle_of_its_body_is_no_defect(app, conn):
    async def receive():
        return {"type": "http.disconnect"}

    headers = {"Authorization": f"Bearer {await add_key(conn)}", **JSON, "Content-Length": "9"}

    assert await ask(app, headers, receive=receive) == 400


async def test_what_was_sent_is_not_repeated(admin):
    secret = "hunter2-hunter2"

    for document in (secret, {"name": [secret], "role": secret}, {"name": "x", "role": {"a": 1}}):
        answer = await admin.post("/api/keys", json=document)
        assert answer.status_code == 400
        assert secret not in answer.text


async def test_a_defect_is_a_problem_that_tells_nothing_and_is_logged(app, caplog):
    @app.get("/health/defect")
    async def defect():
        raise ZeroDivisionError("secret")

    async with client_of(app, raise_app_exceptions=False) as client:
        answer = await client.get("/health/defect")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "secret" not in answer.text
    trace = answer.json()["traceId"]
    assert caplog.messages == [f"Answered 500 (ZeroDivisionError), trace {trace}"]


async def test_a_database_that_is_away_is_a_503_to_come_back_after(database, conn):
    token = await add_key(conn)
    away = make_pool(
        replace(database, url="postgresql://postgres@127.0.0.1:1/x", connect_timeout=1)
    )
    async with away:
        app = create_app(Services(pool=away, control_tokens=(CONTROL,)))
        async with client_of(app) as client:
            answers = await asyncio.gather(
                client.get("/api/me", headers={"Authorization": f"Bearer {token}"}),
                client.get(
                    "/api/me", headers={"Authorization": f"Bearer {CONTROL}", "X-Tenant": "default"}
                ),
            )

    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (503, "database-unavailable")
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["content-type"] == "application/problem+json"


async def test_connections_that_were_lost_while_idle_fail_no_request(admin, pool, conn):
    await asyncio.gather(*(admin.get("/api/me") for _ in range(pool.max_size * 4)))
    assert pool.get_stats()["pool_size"] > 1
    lost = await conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert lost.rowcount > 1

    answers = [(await admin.get("/api/me")).status_code for _ in range(pool.max_size)]

    assert set(answers) == {200}


async def test_a_database_that_is_only_readable_serves_reads(database, conn, call):
    admin = await call("Admin")
    await declare(admin)
    token = await add_key(conn)
    async with make_pool(replace(database, pool_min=1, pool_max=1)) as readable:
        async with readable.connection() as only:
            await only.execute("set default_transaction_read_only = on")
        app = create_app(Services(pool=readable))
        async with client_of(app, {"Authorization": f"Bearer {token}"}) as client:
            read = await client.get("/api/content-types/Article")
            write = await client.put(FIRST, json={"data": {}})

    assert read.status_code == 200
    assert (write.status_code, write.json()["code"]) == (503, "database-unavailable")


NO_ID = "00000000-0000-7000-8000-000000000000"
BAD_KEY = {"Idempotency-Key": "é".encode("latin-1")}
NOT_THERE = [
    (f"/api/workflow-runs/{NO_ID}/cancel", "run-not-found"),
    (f"/api/workflow-runs/{NO_ID}/abandon", "run-not-found"),
    (f"/api/workflow-runs/{NO_ID}/force-end", "run-not-found"),
    (f"/api/workflow-runs/{NO_ID}/actions/0/retry", "run-not-found"),
    (f"/api/workflow-runs/bulk/{NO_ID}/stop", "bulk-not-found"),
    ("/api/entries/Article/nope/transitions/Submit", "entry-not-found"),
    ("/api/entries/Article/a-1/transitions/Nope", "transition-not-found"),
    ("/api/connectors/nope/test", "connector-not-found"),
]


@pytest.mark.parametrize(("path", "code"), NOT_THERE)
async def test_the_thing_in_the_path_comes_before_what_was_sent_for_a_repeat(admin, path, code):
    await declare(admin)
    await admin.put(FIRST, json={"data": {}})

    by_key = await admin.post(path, headers=BAD_KEY)
    by_query = await admin.post(f"{path}?x=a%00b")

    assert [(one.status_code, one.json()["code"]) for one in (by_key, by_query)] == [
        (404, code)
    ] * 2


async def test_an_action_that_is_not_there_does_too(admin, conn, workflow_id):
    run_id = await add_run(conn, workflow_id)
    path = f"/api/workflow-runs/{run_id}/actions"

    there, beyond = [
        await admin.post(f"{path}/{ordinal}/retry", headers=BAD_KEY) for ordinal in (1, 2)
    ]

    assert (there.status_code, there.json()["errors"][0]["name"]) == (400, "Idempotency-Key")
    assert (beyond.status_code, beyond.json()["code"]) == (404, "action-not-found")


@pytest.mark.parametrize("query", ["page=0", "pageSize=101", "status=x", "x=a%00b"])
async def test_a_content_type_that_is_not_there_comes_before_the_query(admin, query):
    answer = await admin.get(f"/api/entries/Nope?{query}")

    assert (answer.status_code, answer.json()["code"]) == (404, "content-type-not-found")


@pytest.mark.parametrize(
    "path",
    [
        "/api/workflow-runs/{0}/cancel",
        "/api/workflow-runs/0b9f6a526f0e4f0c9a551c1f0a6f2d11/actions/0/retry",
        f"/api/workflow-runs/{NO_ID}/actions/٣/retry",
        "/api/workflow-runs/bulk/x/stop",
        "/api/entries/Article/a%00/transitions/Submit",
        "/api/entries/9/a-1/transitions/Submit",
        "/api/connectors/A/test",
    ],
)
async def test_a_path_that_names_nothing_is_a_fault_as_what_was_sent_is(admin, path):
    assert (await admin.post(path, headers=BAD_KEY)).status_code == 400


async def test_who_may_refuse_what_was_sent_before_it_looks_says_what_for(app):
    described = app.openapi()["paths"]
    unsaid = [
        route.name
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, Route) and need_of(route).thing is None
        for method in route.methods
        for one in described[route.path][method.lower()].get("parameters", [])
        if "{" in route.path and (one["in"] == "query" or one["name"] == "Idempotency-Key")
    ]

    assert unsaid == ["run_workflow"]  # which reads its key itself


async def test_what_may_not_be_stopped_is_refused_whatever_the_key(admin, call):
    made = await admin.post("/api/workflow-runs/bulk/cancel", json={"filter": {"entryId": "a"}})
    viewer = await call("Viewer")

    refused = [
        await viewer.post(f"/api/workflow-runs/bulk/{one}/stop", headers=BAD_KEY)
        for one in (made.json()["id"], NO_ID)
    ]
    admitted = await admin.post(
        f"/api/workflow-runs/bulk/{made.json()['id']}/stop", headers=BAD_KEY
    )

    assert [one.status_code for one in refused] == [403, 403]
    assert admitted.status_code == 400


async def test_a_transition_comes_before_the_version_that_is_asked_for(admin):
    await declare(admin)
    await admin.put(FIRST, json={"data": {}})

    answer = await admin.post(f"{FIRST}/transitions/Nope", headers={"If-Match": "x"})

    assert answer.json()["code"] == "transition-not-found"
