"""Workflows: what a save keeps, what it refuses, and what comes back of it."""

import asyncio
import uuid

import pytest
from fix_api import RING, add_tenant

from procession.actions.load import built_in
from procession.queue.sealing import Place

URL = "https://hooks.example.org/articles"
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER_SECRET = "whsec_HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
WEBHOOK = {"type": "Webhook", "parameters": {"Url": URL, "Secret": SECRET}}
ARTICLES = {
    "name": "Announce article",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [WEBHOOK],
}
TYPE = """{"fields": {"Title": {}, "Secret": {"sensitivity": "Hidden"}},
           "lifecycle": {"transitions": {"Approve": {"from": ["Draft"], "to": "Published"}}}}"""


@pytest.fixture(autouse=True)
async def article(conn):
    for tenant in ("default", "acme"):
        await add_tenant(conn, tenant)
        await conn.execute(
            "insert into content_type (tenant, name, definition) values (%s, 'Article', %s)",
            (tenant, TYPE),
        )


async def create(client, **changes):
    answer = await client.post("/api/workflows", json={**ARTICLES, **changes})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def put(client, made, **changes):
    return await client.put(f"/api/workflows/{made['id']}", json={**ARTICLES, **changes})


async def audited(conn):
    cursor = await conn.execute("select action, target_id, metadata from audit order by at")
    return await cursor.fetchall()


async def triggers(conn):
    cursor = await conn.execute("select content_type, event from workflow_trigger order by 1, 2")
    return await cursor.fetchall()


async def versions(conn):
    cursor = await conn.execute("select version from workflow_version order by 1")
    return [version for (version,) in await cursor.fetchall()]


async def test_a_workflow_comes_back_as_it_was_sent_but_for_its_credentials(conn, admin):
    sent = {
        **ARTICLES,
        "triggerContentTypes": ["Article", "Article"],
        "triggerEvents": ["published", "TRANSITION:approve", "Published"],
        "conditions": {"Zone": "north", "Area": "1"},
        "actions": [
            {**WEBHOOK, "onFailure": "Halt"},
            {
                "type": "Webhook",
                "parameters": {"Url": URL},
                "compensate": {"type": "Webhook", "parameters": {"Url": URL, "Secret": SECRET}},
            },
        ],
    }

    answer = await admin.post("/api/workflows", json=sent)

    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/workflows/{made['id']}"
    assert answer.headers["etag"] == '"1"'
    assert list(made["conditions"]) == ["Zone", "Area"]
    read = await admin.get(answer.headers["location"])
    assert read.headers["etag"] == '"1"'
    assert {**read.json(), "warnings": []} == made
    assert list((await admin.get(answer.headers["location"])).json()["conditions"]) == [
        "Zone",
        "Area",
    ]
    at = {"createdAt": made["createdAt"], "updatedAt": made["updatedAt"]}
    assert made == {
        "id": made["id"], "name": "Announce article", "version": 1, "enabled": True,
        "executor": None, "triggerContentTypes": ["Article"],
        "triggerEvents": ["Published", "transition:Approve"],
        "conditions": {"Zone": "north", "Area": "1"},
        "actions": [
            {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": ["Secret"],
             "onFailure": "Halt", "capture": [], "compensate": None},
            {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": [],
             "onFailure": "Continue", "capture": [],
             "compensate": {"type": "Webhook", "parameters": {"Url": URL},
                            "credentialsSet": ["Secret"]}}],
        **at, "warnings": [],
    }  # fmt: skip
    assert SECRET not in answer.text + read.text
    assert await triggers(conn) == [("Article", "Published"), ("Article", "transition:Approve")]
    about = {"name": "Announce article", "version": 1}
    assert await audited(conn) == [("workflow.created", made["id"], about)]


async def test_all_faults_are_told_at_once_and_nothing_is_stored(conn, admin):
    answer = await admin.post(
        "/api/workflows",
        json={
            "name": " ",
            "triggerContentTypes": [],
            "triggerEvents": ["Manual"],
            "actions": [{"type": "Fax"}, {"type": "Webhook", "parameters": {}}],
            "enabled": 1,
            "executor": "remote",
        },
    )

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert {
        "name", "triggerContentTypes", "triggerEvents[0]", "actions[0].type",
        "actions[1].parameters.Url", "enabled", "executor",
    } <= {one["name"] for one in answer.json()["errors"]}  # fmt: skip
    assert (await admin.get("/api/workflows")).json()["totalItems"] == 0
    assert await audited(conn) == []


async def test_a_doubtful_workflow_is_saved_with_warnings(admin):
    made = await create(admin, colour="red", triggerContentTypes=["Article", "Page"])

    assert {one["field"] for one in made["warnings"]} == {"colour", "triggerContentTypes[1]"}
    shown = (await admin.get(f"/api/workflows/{made['id']}")).json()
    assert "warnings" not in shown


async def test_the_list_goes_by_name(admin, call):
    for name in ("b", "a", "c"):
        await create(admin, name=name)
    await create(await call("Admin", "acme"), name="0")

    first = (await admin.get("/api/workflows", params={"pageSize": 2})).json()
    beyond = (await admin.get("/api/workflows", params={"page": 3, "pageSize": 2})).json()

    assert [one["name"] for one in first["items"]] == ["a", "b"]
    assert (first["totalItems"], first["totalPages"], first["hasNextPage"]) == (3, 2, True)
    assert (beyond["items"], beyond["hasPreviousPage"]) == ([], True)
    for query in ({"page": 0}, {"pageSize": 101}):
        assert (await admin.get("/api/workflows", params=query)).status_code == 400


async def test_a_save_that_changes_the_definition_is_a_version(conn, admin):
    made = await create(admin)
    sent = {"Url": "https://other.example.org", "Secret": OTHER_SECRET}

    answer = await put(
        admin,
        made,
        triggerEvents=["Created"],
        actions=[{"type": "Webhook", "parameters": sent}],
        enabled=False,
    )

    saved = answer.json()
    assert answer.status_code == 200
    assert answer.headers["etag"] == '"2"'
    assert (saved["version"], saved["enabled"]) == (2, False)
    assert saved["updatedAt"] > made["updatedAt"]
    assert saved["createdAt"] == made["createdAt"]
    assert await triggers(conn) == [("Article", "Created")]
    assert await versions(conn) == [1, 2]
    about = {"name": "Announce article", "version": 2, "previousVersion": 1, "enabled": False}
    assert (await audited(conn))[-1] == ("workflow.updated", made["id"], about)
    first = (await admin.get(f"/api/workflows/{made['id']}/versions/1")).json()
    assert (first["version"], first["triggerEvents"]) == (1, ["Published"])


async def test_a_save_that_changes_nothing_writes_nothing(conn, admin):
    made = await create(admin)

    answer = await put(admin, made)

    assert answer.status_code == 200
    assert answer.json() == made
    assert await versions(conn) == [1]
    assert len(await audited(conn)) == 1


async def test_the_order_of_the_conditions_is_a_change(conn, admin):
    made = await create(admin, conditions={"A": "1", "B": "2"})

    answer = await put(admin, made, conditions={"B": "2", "A": "1"})

    assert answer.json()["version"] == 2
    assert list(answer.json()["conditions"]) == ["B", "A"]
    assert await versions(conn) == [1, 2]


async def test_two_saves_of_one_version_make_two_or_one_is_refused(conn, admin):
    made = await create(admin)
    path = f"/api/workflows/{made['id']}"

    async def save(name):
        sent = {**ARTICLES, "name": name}
        return (await admin.put(path, json=sent, headers={"If-Match": '"1"'})).status_code

    assert sorted(await asyncio.gather(*(save(f"Saver {one}") for one in range(4)))) == [
        200,
        412,
        412,
        412,
    ]
    assert await versions(conn) == [1, 2]


async def test_a_save_that_leaves_enabled_out_switches_on(conn, admin):
    made = await create(admin, enabled=False)

    answer = await put(admin, made)

    assert (answer.json()["version"], answer.json()["enabled"]) == (1, True)
    assert await versions(conn) == [1]
    about = {"name": "Announce article", "version": 1, "previousVersion": 1, "enabled": True}
    assert (await audited(conn))[-1] == ("workflow.updated", made["id"], about)


async def test_a_credential_is_kept_by_the_action_that_has_it_and_by_no_other(conn, admin):
    made = await create(admin)
    same = {"type": "Webhook", "parameters": {"Url": URL}, "credentialsSet": ["Secret"]}
    moved = {"type": "Webhook", "parameters": {"Url": "https://evil.example.org"}}

    kept = await put(admin, made, name="Renamed", actions=[same])
    refused = await put(admin, made, name="Moved", actions=[moved])

    assert kept.json()["actions"][0]["credentialsSet"] == ["Secret"]
    assert refused.status_code == 400
    assert [one["name"] for one in refused.json()["errors"]] == ["actions[0].parameters.Secret"]
    cursor = await conn.execute(
        "select definition #>> '{actions,0,parameters,Secret}' from workflow_version"
    )
    place = Place("default", made["id"], "actions[0].parameters.Secret")
    first, second = [RING.open(sealed, place) for (sealed,) in await cursor.fetchall()]
    assert (first, second) == (SECRET, SECRET)


async def test_a_save_is_refused_by_the_version_it_was_not_made_from(admin):
    made = await create(admin)
    path = f"/api/workflows/{made['id']}"

    stale = await admin.put(path, json=ARTICLES, headers={"If-Match": '"2"'})
    odd = await admin.put(path, json=ARTICLES, headers={"If-Match": "2"})
    right = await admin.put(path, json={**ARTICLES, "name": "N"}, headers={"If-Match": '"1"'})

    assert (stale.status_code, stale.json()["code"]) == (412, "version-mismatch")
    assert stale.json()["version"] == 1
    assert (odd.status_code, odd.json()["errors"][0]["name"]) == (400, "If-Match")
    assert (right.status_code, right.json()["version"]) == (200, 2)


async def test_switching_makes_no_version_and_is_audited_once(conn, admin):
    made = await create(admin)
    path = f"/api/workflows/{made['id']}/enabled"

    off = await admin.put(path, json={"enabled": False})
    again = await admin.put(path, json={"enabled": False})

    assert (off.json()["enabled"], off.json()["version"]) == (False, 1)
    assert again.json() == off.json()
    about = {"name": "Announce article"}
    assert (await audited(conn))[1:] == [("workflow.disabled", made["id"], about)]


@pytest.mark.parametrize("body", [{}, {"enabled": "false"}, {"enabled": None}, {"enabled": 0}])
async def test_a_switch_that_is_no_boolean_is_refused(admin, body):
    made = await create(admin)

    answer = await admin.put(f"/api/workflows/{made['id']}/enabled", json=body)

    assert (answer.status_code, answer.json()["errors"][0]["name"]) == (400, "enabled")


async def test_a_path_that_names_nothing_is_refused_before_what_was_sent(admin, call):
    made = await create(admin)
    stranger = await call("Admin", "acme")
    gone = f"/api/workflows/{uuid.uuid4()}"

    answers = [
        await admin.get(gone),
        await admin.put(gone, json={}),
        await admin.put(f"{gone}/enabled", json={}),
        await admin.delete(gone),
        await admin.get(f"{gone}/versions/1"),
        await admin.get(f"/api/workflows/{made['id']}/versions/2"),
        await stranger.get(f"/api/workflows/{made['id']}"),
        await stranger.get(f"/api/workflows/{made['id']}/versions/1"),
        await put(stranger, made),
        await stranger.put(f"/api/workflows/{made['id']}/enabled", json={"enabled": False}),
        await stranger.delete(f"/api/workflows/{made['id']}"),
    ]

    codes = ["version-not-found" if at == 5 else "workflow-not-found" for at in range(11)]
    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (404, code) for code in codes
    ]
    assert (await admin.get(f"/api/workflows/{made['id']}")).json()["enabled"] is True


@pytest.mark.parametrize("path", ["x", "17/versions/1", f"{uuid.UUID(int=1)}/versions/0"])
async def test_a_malformed_path_is_refused(admin, path):
    answer = await admin.get(f"/api/workflows/{path}")

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")


async def test_who_may_not_manage_workflows_is_refused(call):
    viewer = await call("Viewer")

    answers = [
        await viewer.get("/api/workflows"),
        await viewer.post("/api/workflows", json={}),
        await viewer.get("/api/workflows/actions"),
        await viewer.post("/api/workflows/validate", json={}),
    ]

    assert {(one.status_code, one.json()["capability"]) for one in answers} == {
        (403, "manage_workflows")
    }


async def test_a_check_saves_nothing_and_a_faulty_one_is_an_answer_too(conn, admin):
    right = await admin.post("/api/workflows/validate", json=ARTICLES)
    wrong = await admin.post("/api/workflows/validate", json={**ARTICLES, "name": "", "odd": 1})

    assert right.json() == {"isValid": True, "errors": [], "warnings": []}
    assert wrong.json()["isValid"] is False
    assert [one["name"] for one in wrong.json()["errors"]] == ["name"]
    assert [one["field"] for one in wrong.json()["warnings"]] == ["odd"]
    assert await versions(conn) == []


async def test_the_action_types_say_what_they_take_and_whether_they_are_served(conn, admin):
    before = (await admin.get("/api/workflows/actions")).json()
    await conn.execute(
        "insert into worker (id, release, document_format, action_types, claims)"
        " values (gen_random_uuid(), '0', 1, '{Webhook}', true)"
    )
    after = (await admin.get("/api/workflows/actions")).json()

    assert [one["type"] for one in before] == sorted(built_in())
    webhook = before[-1]
    assert (webhook["type"], webhook["repeatable"], webhook["served"]) == (
        "Webhook",
        "Always",
        False,
    )
    assert [(one["name"], one["required"], one["credential"]) for one in webhook["parameters"]] == [
        ("Url", True, False),
        ("Secret", False, True),
    ]
    assert [one["type"] for one in after if one["served"]] == ["Webhook"]


async def test_the_names_for_templates_leave_hidden_fields_out(admin):
    plain = (await admin.get("/api/workflows/variables")).json()["names"]
    named = await admin.get("/api/workflows/variables", params={"contentType": "Article"})
    unknown = await admin.get("/api/workflows/variables", params={"contentType": "Page"})

    assert {"id", "status", "transition.by.name"} <= set(plain)
    assert set(named.json()["names"]) - set(plain) == {"data.Title"}
    assert (unknown.status_code, unknown.json()["code"]) == (404, "content-type-not-found")
