"""Verbs for many runs, as they are asked for."""

import uuid

import pytest
from fix_runs import add_run, add_workflow

from procession.engine.run import Action, Status
from procession.queue import bulk, bulk_turn

FAILED = (
    Action(status=Status.FAILED, attempts=1, failures=1, retryable=False),
    Action(status=Status.SKIPPED, halted_by=0),
)
BULK = "/api/workflow-runs/bulk"


@pytest.fixture
async def flow(conn):
    """A workflow with two runs that have failed and one that waits."""
    workflow_id = await add_workflow(conn)
    for actions in (FAILED, FAILED, ()):
        await add_run(conn, workflow_id, *actions)
    return {"filter": {"workflowId": str(workflow_id)}}


async def test_a_dry_run_counts_and_does_nothing(admin, conn, flow):
    retry = await admin.post(f"{BULK}/retry", json=flow | {"dryRun": True})
    cancel = await admin.post(f"{BULK}/cancel", json=flow | {"dryRun": True})

    assert (retry.status_code, retry.json()) == (200, {"matched": 2})
    assert (cancel.status_code, cancel.json()) == (200, {"matched": 1})
    assert await bulk_turn.turn(conn) is None


async def test_a_status_that_is_named_is_gone_by(admin, flow):
    chosen = flow["filter"] | {"status": ["Pending", "Failed"]}

    answer = await admin.post(f"{BULK}/cancel", json={"filter": chosen, "dryRun": True})

    assert answer.json() == {"matched": 3}


async def test_what_is_asked_for_is_looked_at_until_it_is_done(admin, conn, flow):
    asked = await admin.post(f"{BULK}/retry", json=flow | {"unknown": True})
    await bulk_turn.turn(conn)
    done = await admin.get(asked.headers["location"])
    listed = await admin.get(BULK)

    assert asked.status_code == 202
    first = asked.json()
    assert (first["status"], first["matched"], first["done"]) == ("Queued", 2, 0)
    assert (first["verb"], first["unknown"], first["finishedAt"]) == ("Retry", True, None)
    assert first["filter"]["status"] == ["Failed", "PartiallyFailed"]
    assert first["filter"]["workflowId"] == flow["filter"]["workflowId"]
    after = done.json()
    assert (after["status"], after["done"], after["changed"]) == ("Done", 2, 2)
    assert (after["unchanged"], after["refused"]) == (0, {})
    assert after["askedBy"]["kind"] == "ApiKey"
    assert listed.json()["items"] == [after]
    audit = await admin.get("/api/audit?action=workflow.runs.bulk")
    (entry,) = audit.json()["items"]
    assert (entry["targetType"], entry["targetId"]) == ("Bulk", after["id"])
    assert entry["actor"] == after["askedBy"]
    assert (entry["metadata"]["verb"], entry["metadata"]["changed"]) == ("Retry", 2)


async def test_a_stop_is_heeded_once(admin, conn, flow):
    asked = (await admin.post(f"{BULK}/abandon", json=flow)).json()
    stopped = await admin.post(f"{BULK}/{asked['id']}/stop")
    again = await admin.post(f"{BULK}/{asked['id']}/stop")

    assert (stopped.status_code, stopped.json()["status"]) == (200, "Stopped")
    assert (again.status_code, again.json()["code"]) == (409, "bulk-finished")
    assert await bulk_turn.turn(conn) is None


async def test_one_too_many_is_refused_and_may_still_be_counted(admin, conn, flow, monkeypatch):
    monkeypatch.setattr(bulk, "MOST", 1)
    await admin.post(f"{BULK}/retry", json=flow)

    refused = await admin.post(f"{BULK}/cancel", json=flow)
    counted = await admin.post(f"{BULK}/cancel", json=flow | {"dryRun": True})
    await bulk_turn.turn(conn)

    assert (refused.status_code, refused.json()["code"]) == (409, "too-many-bulks")
    assert counted.json() == {"matched": 1}
    assert (await admin.post(f"{BULK}/cancel", json=flow)).status_code == 202


async def test_who_may_stop_none_is_refused_whether_it_is_there_or_not(call, conn):
    viewer = await call("Viewer")

    answer = await viewer.post(f"{BULK}/{uuid.uuid4()}/stop", headers={"Idempotency-Key": "k"})

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    cursor = await conn.execute("select from idempotency")
    assert cursor.rowcount == 0


LACKING = {
    ("Viewer", "retry"): "retry_workflow_actions",
    ("Viewer", "cancel"): "manage_workflows",
    ("Operator", "cancel"): "manage_workflows",
    ("Editor", "retry"): "retry_workflow_actions",
    ("Editor", "abandon"): "retry_workflow_actions",
}


@pytest.mark.parametrize(("role", "verb"), LACKING)
async def test_a_verb_needs_what_it_needs_for_one_run(admin, call, flow, role, verb):
    caller = await call(role)
    asked = (await admin.post(f"{BULK}/{verb}", json=flow)).json()

    refused = await caller.post(f"{BULK}/{verb}", json=flow)
    not_stopped = await caller.post(f"{BULK}/{asked['id']}/stop")

    for answer in (refused, not_stopped):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert answer.json()["capability"] == LACKING[role, verb]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["filter"]),
        ({"filter": {}}, ["filter"]),
        ({"filter": {"nonsense": 1}}, ["filter.nonsense"]),
        ({"filter": {"entryId": "a", "contenttype": "A"}}, ["filter.contenttype"]),
        ({"filter": {"entryId": "a"}, "dryrun": True}, ["dryrun"]),
        ({"filter": {"status": []}}, ["filter.status"]),
        ({"filter": {"status": ["failed"]}}, ["filter.status[0]"]),
        ({"filter": {"status": [99]}}, ["filter.status[0]"]),
        ({"filter": {"status": "Failed"}}, ["filter.status"]),
        ({"filter": {"workflowId": "x"}}, ["filter.workflowId"]),
        (
            {"filter": {"entryId": "a/b", "contentType": "1"}},
            ["filter.entryId", "filter.contentType"],
        ),
        ({"filter": {"createdBefore": "yesterday"}}, ["filter.createdBefore"]),
        ({"filter": {"entryId": "a"}, "dryRun": "yes"}, ["dryRun"]),
    ],
)
async def test_each_fault_is_named(admin, body, names):
    answer = await admin.post(f"{BULK}/retry", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == names


async def test_what_is_another_tenants_does_not_exist(admin, call, flow):
    asked = (await admin.post(f"{BULK}/retry", json=flow)).json()
    stranger = await call("Admin", "globex")

    for answer in (
        await stranger.get(f"{BULK}/{asked['id']}"),
        await stranger.post(f"{BULK}/{asked['id']}/stop"),
        await admin.get(f"{BULK}/{uuid.uuid4()}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "bulk-not-found")
    assert (await stranger.get(BULK)).json()["items"] == []
    counted = await stranger.post(f"{BULK}/retry", json=flow | {"dryRun": True})
    assert counted.json() == {"matched": 0}
    assert (await admin.get(f"{BULK}/nonsense")).status_code == 400
