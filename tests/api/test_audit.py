"""The audit log: what each change leaves in it, who may read it, and that nobody may rewrite it."""

import uuid
from datetime import datetime, timedelta

import httpx2
import pytest
from fix_api import ARTICLE
from fix_runs import EPOCH, WEBHOOKS, add_run, add_workflow
from msgspec.structs import replace
from psycopg.errors import RestrictViolation

from procession.engine.run import Action, Status
from procession.engine.workflow import Compensate, OnFailure

DONE = Action(status=Status.SUCCEEDED, attempts=1, completed_at=EPOCH)
FAILED = Action(
    status=Status.FAILED, attempts=1, failures=1, error="No.", retryable=False, completed_at=EPOCH
)
UNKNOWN = Action(status=Status.UNKNOWN, attempts=1, in_doubt=True, completed_at=EPOCH)
BEHIND = Action(status=Status.SKIPPED, halted_by=0, error="Behind.", completed_at=EPOCH)
RUNNING = Action(status=Status.RUNNING, attempts=1, started_at=EPOCH)
FIRST, SECOND = WEBHOOKS.actions
HALTING = replace(WEBHOOKS, actions=(replace(FIRST, on_failure=OnFailure.HALT), SECOND))
UNDOABLE = replace(
    WEBHOOKS, actions=(replace(FIRST, compensate=Compensate(type="Webhook")), SECOND, SECOND)
)
ANNOUNCE = {
    "name": "Announce",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [{"type": "Webhook", "parameters": {"Url": "https://example.org"}}],
}


async def entries(client, **filters):
    answer = await client.get("/api/audit", params=filters)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def create_workflow(client, **changes):
    answer = await client.post("/api/workflows", json={**ANNOUNCE, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def workflow_created(_, client):
    target = await create_workflow(client)
    return "Workflow", target, {"name": "Announce", "version": 1}


async def workflow_updated(_, client):
    target = await create_workflow(client)
    await client.put(f"/api/workflows/{target}", json={**ANNOUNCE, "name": "Tell"})
    about = {"name": "Tell", "version": 2, "previousVersion": 1, "enabled": True}
    return "Workflow", target, about


async def workflow_disabled(_, client):
    target = await create_workflow(client)
    await client.put(f"/api/workflows/{target}/enabled", json={"enabled": False})
    return "Workflow", target, {"name": "Announce"}


async def workflow_enabled(_, client):
    target = await create_workflow(client, enabled=False)
    await client.put(f"/api/workflows/{target}/enabled", json={"enabled": True})
    return "Workflow", target, {"name": "Announce"}


async def workflow_deleted(conn, client):
    target = await add_workflow(conn)
    await add_run(conn, target)
    await client.delete(f"/api/workflows/{target}")
    return "Workflow", str(target), {"name": WEBHOOKS.name, "cancelledRuns": 1}


async def run_of(conn, definition, *actions):
    workflow_id = await add_workflow(conn, definition)
    run_id = await add_run(conn, workflow_id, *actions, definition=definition)
    return f"/api/workflow-runs/{run_id}", str(run_id), {"workflow": str(workflow_id)}


async def workflow_run_cancelled(conn, client):
    path, target, about = await run_of(conn, WEBHOOKS, RUNNING, Action())
    await client.post(f"{path}/cancel")
    return "WorkflowRun", target, about | {"cancelledActions": 1, "leftRunning": 1}


async def workflow_run_abandoned(conn, client):
    path, target, about = await run_of(conn, UNDOABLE, DONE, DONE, FAILED)
    await client.post(f"{path}/abandon")
    return "WorkflowRun", target, about | {"undos": 1, "notDeclared": 1}


async def workflow_run_force_ended(conn, client):
    path, target, about = await run_of(conn, WEBHOOKS, RUNNING, Action())
    await client.post(f"{path}/force-end")
    return "WorkflowRun", target, about | {"cancelledActions": 1, "unknownActions": 1}


async def workflow_action_retried(conn, client):
    path, target, about = await run_of(conn, HALTING, FAILED, BEHIND)
    await client.post(f"{path}/actions/0/retry")
    said = {"wasUnknown": False, "wasPermanent": True, "resumedActions": 1}
    return "WorkflowRun", target, about | {"ordinal": 0, "actionType": "Webhook", **said}


async def workflow_action_retried_alone(conn, client):
    path, target, about = await run_of(conn, WEBHOOKS, DONE, UNKNOWN)
    await client.post(f"{path}/actions/1/retry")
    said = {"wasUnknown": True, "wasPermanent": False}
    return "WorkflowRun", target, about | {"ordinal": 1, "actionType": "Webhook", **said}


async def content_type_saved(_, client):
    await client.put("/api/content-types/Article", json=ARTICLE)
    return "ContentType", "Article", {"name": "Article"}


async def content_type_deleted(_, client):
    await client.put("/api/content-types/Article", json=ARTICLE)
    await client.delete("/api/content-types/Article")
    return "ContentType", "Article", {"name": "Article"}


async def key_created(_, client):
    made = await client.post("/api/keys", json={"name": "Shop", "role": "Viewer"})
    return "ApiKey", made.json()["id"], {"name": "Shop", "role": "Viewer"}


async def key_revoked(conn, client):
    kind, target, about = await key_created(conn, client)
    await client.delete(f"/api/keys/{target}")
    return kind, target, about


async def role_saved(_, client):
    await client.put("/api/roles/Courier", json={"capabilities": ["read_entries"]})
    return "Role", "Courier", {"name": "Courier", "added": ["read_entries"], "removed": []}


async def role_deleted(conn, client):
    await role_saved(conn, client)
    await client.delete("/api/roles/Courier")
    return "Role", "Courier", {"name": "Courier", "added": [], "removed": ["read_entries"]}


async def tenant_saved(_, client):
    await client.put("/api/tenants/default", json={"name": "Ours"})
    return "Tenant", "default", {"slug": "default"}


DONE_BY = {
    "workflow.created": workflow_created,
    "workflow.updated": workflow_updated,
    "workflow.disabled": workflow_disabled,
    "workflow.enabled": workflow_enabled,
    "workflow.deleted": workflow_deleted,
    "workflow.run.cancelled": workflow_run_cancelled,
    "workflow.run.abandoned": workflow_run_abandoned,
    "workflow.run.force-ended": workflow_run_force_ended,
    "workflow.action.retried": workflow_action_retried,
    "content-type.saved": content_type_saved,
    "content-type.deleted": content_type_deleted,
    "key.created": key_created,
    "key.revoked": key_revoked,
    "role.saved": role_saved,
    "role.deleted": role_deleted,
    "tenant.saved": tenant_saved,
}


@pytest.mark.parametrize(
    ("action", "do"),
    [*DONE_BY.items(), ("workflow.action.retried", workflow_action_retried_alone)],
)
async def test_a_change_leaves_one_entry_with_all_that_is_promised(conn, admin, action, do):
    me = (await admin.get("/api/me")).json()["actor"]

    kind, target, metadata = await do(conn, admin)

    (found,) = await entries(admin, action=action)
    uuid.UUID(found.pop("id"))
    assert found.pop("at").endswith("Z")
    assert found == {
        "action": action,
        "actor": me,
        "targetType": kind,
        "targetId": target,
        "metadata": metadata,
        "ip": "127.0.0.1",
    }


NOTE = """
    insert into audit (tenant, id, at, action, target_type, target_id)
    values (%s, %s, %s, %s, 'Role', %s)
"""


async def add(conn, second, action="role.saved", target="Courier", tenant="default"):
    at = EPOCH + timedelta(seconds=second)
    await conn.execute(NOTE, (tenant, uuid.uuid4(), at, action, target))


def seconds(found):
    return [(datetime.fromisoformat(one["at"]) - EPOCH).total_seconds() for one in found]


async def test_the_newest_come_first_and_in_pages(conn, admin):
    for second in (2, 4, 1, 3):
        await add(conn, second)

    first = (await admin.get("/api/audit?pageSize=3")).json()
    second = (await admin.get("/api/audit?pageSize=3&page=2")).json()

    assert seconds(first["items"]) == [4, 3, 2]
    assert seconds(second["items"]) == [1]
    assert (first["totalItems"], first["totalPages"], first["hasNextPage"]) == (4, 2, True)
    assert first["items"][0]["actor"] is first["items"][0]["ip"] is None


async def test_a_list_may_be_narrowed(conn, admin):
    for second, action, target in (
        (1, "role.saved", "Courier"),
        (2, "role.deleted", "Courier"),
        (3, "role.saved", "Clerk"),
    ):
        await add(conn, second, action, target)

    async def found(**filters):
        return seconds(await entries(admin, **filters))

    assert await found(action="role.saved") == [3, 1]
    assert await found(action="role.s") == []
    assert await found(targetId="Courier") == [2, 1]
    assert await found(targetId="Courier", action="role.saved") == [1]
    assert await found(**{"from": "2020-11-30T08:00:02Z"}) == [3, 2]
    assert await found(to="2020-11-30T09:00:02+01:00") == [2, 1]
    both = {"from": "2020-11-30T08:00:02Z", "to": "2020-11-30T08:00:02Z"}
    assert await found(**both) == [2]


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize(
    "text", ["", "yesterday", "2020-11-30", "2020-11-30T08:00:00", "2020-02-30T08:00:00Z", "1"]
)
async def test_a_time_that_is_none_is_refused(admin, name, text):
    answer = await admin.get("/api/audit", params={name: text})

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == [name]


async def test_another_tenants_entries_are_not_shown(conn, admin, call):
    other = await call("Admin", "acme")
    await add(conn, 1)

    assert await entries(other, targetId="Courier") == []
    assert len(await entries(admin)) == 1


@pytest.mark.parametrize("role", ["Editor", "Operator", "Viewer"])
async def test_it_is_for_those_who_may_view_it(call, role):
    answer = await (await call(role)).get("/api/audit")

    assert (answer.status_code, answer.json()["capability"]) == (403, "view_audit_log")


@pytest.mark.parametrize(
    "change",
    [
        "update audit set action = 'x'",
        "delete from audit",
        "delete from audit where action = 'nothing.like.it'",
        "truncate audit",
        "truncate tenant cascade",
    ],
)
async def test_what_is_noted_stays(conn, change):
    await add(conn, 1)

    with pytest.raises(RestrictViolation, match="append-only"):
        await conn.execute(change)

    cursor = await conn.execute("select action from audit")
    assert await cursor.fetchall() == [("role.saved",)]


async def test_what_is_refused_or_changes_nothing_leaves_no_entry(conn, admin):
    path, *_ = await run_of(conn, WEBHOOKS, DONE, DONE)
    target = await create_workflow(admin)

    await admin.post(f"{path}/cancel")
    await admin.put(f"/api/workflows/{target}", json=ANNOUNCE)
    await admin.put(f"/api/workflows/{target}/enabled", json={"enabled": True})
    await admin.post("/api/workflows", json={})

    assert [one["action"] for one in await entries(admin)] == ["workflow.created"]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("x" * 5_000, "127.0.0.1"),
        (f"fe80::1%{'x' * 5_000}", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
async def test_of_a_proxys_word_only_an_address_is_kept(remote, admin, said, kept):
    headers = {"Authorization": f"Bearer {remote.key}", "X-Forwarded-For": said}
    async with httpx2.AsyncClient(base_url=remote.url, trust_env=False) as client:
        made = await client.post("/api/keys", json={"name": "k", "role": "Viewer"}, headers=headers)

    assert made.status_code == 201
    assert (await entries(admin, action="key.created"))[0]["ip"] == kept
