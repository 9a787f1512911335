"""The delivery log as callers see it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from fix_api import add_tenant
from psycopg import sql
from psycopg.types.json import Jsonb

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
WORKFLOW, RUN = uuid.UUID(int=1), uuid.UUID(int=2)


async def add_delivery(conn, **columns):
    row = {
        "tenant": "default",
        "id": uuid.uuid4(),
        "created_at": NOW,
        "delivery_id": uuid.UUID(int=3),
        "workflow_id": WORKFLOW,
        "run_id": RUN,
        "ordinal": 0,
        "attempt": 1,
        "event": "Published",
        "method": "POST",
        "url": "https://hooks.example.com",
        "request_headers": Jsonb({"webhook-id": "3", "webhook-signature": "[redacted]"}),
        "response_status": 200,
        "response_body": "thanks",
        "requests_sent": 1,
        "duration_ms": 12,
        **columns,
    }
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    values = sql.SQL(", ").join(map(sql.Placeholder, row))
    await conn.execute(sql.SQL("insert into delivery ({}) values ({})").format(names, values), row)
    return str(row["id"])


async def listed(client, **query):
    answer = await client.get("/api/webhook-deliveries", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ids(client, **query):
    return [one["id"] for one in (await listed(client, **query))["items"]]


@pytest.fixture
async def seer(conn, call):
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Seer',"
        " '{view_workflow_runs, view_webhook_response_bodies}')"
    )
    return await call("Seer")


async def test_a_delivery_is_shown_whole_to_who_may_see_bodies(conn, seer):
    id_ = await add_delivery(conn)

    (item,) = (await listed(seer))["items"]

    assert item == {
        "id": id_,
        "deliveryId": str(uuid.UUID(int=3)),
        "workflowId": str(WORKFLOW),
        "runId": str(RUN),
        "ordinal": 0,
        "attempt": 1,
        "event": "Published",
        "method": "POST",
        "url": "https://hooks.example.com",
        "requestHeaders": {"webhook-id": "3", "webhook-signature": "[redacted]"},
        "responseStatus": 200,
        "responseBody": "thanks",
        "responseBodyClearedAt": None,
        "requestsSent": 1,
        "durationMs": 12,
        "error": None,
        "connectorSlug": None,
        "requestSlug": None,
        "createdAt": "2026-11-30T08:00:00.000000Z",
    }


@pytest.mark.parametrize("role", ["Admin", "Editor", "Operator", "Viewer"])
async def test_no_built_in_role_sees_a_body(conn, call, role):
    await add_delivery(conn)

    page = await listed(await call(role))

    assert "responseBody" not in page["items"][0]
    assert (page["totalItems"], page["totalPages"], page["hasNextPage"]) == (1, 1, False)


async def test_a_body_that_is_not_there_is_null_for_who_may_see_it(conn, seer):
    await add_delivery(conn, response_body=None, response_body_cleared_at=NOW)

    (item,) = (await listed(seer))["items"]

    assert item["responseBody"] is None
    assert item["responseBodyClearedAt"] == "2026-11-30T08:00:00.000000Z"


async def test_the_newest_come_first(conn, admin):
    made = [await add_delivery(conn, created_at=NOW + timedelta(minutes=at)) for at in (1, 3, 2)]

    assert await ids(admin) == [made[1], made[2], made[0]]
    assert await ids(admin, pageSize=2, page=2) == [made[0]]


async def test_deliveries_are_found_by_run_workflow_and_answer(conn, admin):
    other = uuid.uuid4()
    by_status = {
        status: await add_delivery(conn, response_status=status, workflow_id=other)
        for status in (200, 299, 302, 404, 503, None)
    }
    of_run = await add_delivery(conn, run_id=other, response_status=700)

    assert await ids(admin, runId=str(other)) == [of_run]
    assert await ids(admin, workflowId=str(WORKFLOW)) == [of_run]
    for name, found in {
        "2xx": {200, 299},
        "3XX": {302},
        "4xx": {404},
        "5xx": {503},
        "Failed": {None},
    }.items():
        assert set(await ids(admin, status=name)) == {by_status[status] for status in found}
    assert await ids(admin, status="2xx", runId=str(other)) == []


@pytest.mark.parametrize("query", ["status=600", "status=200", "runId=x", "workflowId=1", "page=0"])
async def test_a_filter_that_cannot_be_is_refused(admin, query):
    answer = await admin.get(f"/api/webhook-deliveries?{query}")

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["name"] == query.split("=")[0]


async def test_another_tenants_deliveries_are_not_there(conn, call):
    await add_tenant(conn, "acme")
    await add_delivery(conn)

    assert await ids(await call("Admin", "acme")) == []


async def test_who_may_not_see_runs_sees_no_deliveries(conn, call):
    await conn.execute(
        "insert into role (tenant, name, capabilities) values ('default', 'Reader',"
        " '{read_entries, view_webhook_response_bodies}')"
    )

    answer = await (await call("Reader")).get("/api/webhook-deliveries")

    assert (answer.status_code, answer.json()["capability"]) == (403, "view_workflow_runs")
