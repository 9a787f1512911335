"""Keys, roles and tenants."""

import pytest
from fix_api import add_key, add_tenant


async def audited(conn, *actions):
    cursor = await conn.execute(
        "select action, target_type, target_id, metadata, actor from audit order by at"
    )
    return [row for row in await cursor.fetchall() if not actions or row[0] in actions]


async def test_a_key_is_shown_once_works_and_is_revoked(client, admin, conn):
    made = await admin.post("/api/keys", json={"name": "Shop", "role": "Editor"})

    assert made.status_code == 201
    assert made.json().keys() == {"id", "name", "role", "expiresAt", "createdAt", "key"}
    headers = {"Authorization": f"Bearer {made.json()['key']}"}
    assert (await client.get("/api/me", headers=headers)).json()["roles"] == ["Editor"]

    listed = (await admin.get("/api/keys")).json()
    assert [one["name"] for one in listed["items"]] == ["Shop", "key of Admin"]
    assert listed["items"][0].keys() == {
        "id",
        "name",
        "role",
        "createdAt",
        "expiresAt",
        "revokedAt",
        "lastUsedAt",
    }
    assert listed["items"][0]["lastUsedAt"].endswith(":00.000000Z")
    assert made.json()["key"] not in (await admin.get("/api/keys")).text

    path = f"/api/keys/{made.json()['id']}"
    assert [(await admin.delete(path)).status_code for _ in range(2)] == [204, 204]
    assert (await client.get("/api/me", headers=headers)).status_code == 401
    target = ("ApiKey", made.json()["id"], {"name": "Shop", "role": "Editor"})
    assert [row[:4] for row in await audited(conn)] == [
        ("key.created", *target),
        ("key.revoked", *target),
    ]
    assert (await audited(conn))[0][4]["name"] == "key of Admin"


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["name", "role"]),
        ([], ["body"]),
        ({"name": "", "role": "Admin"}, ["name"]),
        ({"name": " ", "role": "Admin"}, ["name"]),
        ({"name": "x" * 201, "role": "Admin"}, ["name"]),
        ({"name": 1, "role": True}, ["name", "role"]),
        ({"name": "x", "role": "Nobody"}, ["role"]),
        ({"name": "x", "role": "Admin", "expiresAt": "tomorrow"}, ["expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": "2027-01-01T00:00:00"}, ["expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": 1}, ["expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": "2020-01-01T00:00:00Z"}, ["expiresAt"]),
        ({"name": "x", "role": "No", "expiresAt": "2020-01-01T00:00:00Z"}, ["role", "expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": "9999-12-31T23:59:59-01:00"}, ["expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": "0001-01-01T00:00:00+01:00"}, ["expiresAt"]),
        ({"name": "x", "role": "Admin", "expiresAt": "2027-02-30T00:00:00Z"}, ["expiresAt"]),
    ],
)
async def test_a_key_with_faults_is_refused_and_nothing_is_kept(admin, conn, body, names):
    answer = await admin.post("/api/keys", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == names
    assert (await (await conn.execute("select count(*) from api_key")).fetchone()) == (1,)
    assert await audited(conn) == []


async def test_a_key_may_expire(admin):
    made = await admin.post(
        "/api/keys", json={"name": "x", "role": "Admin", "expiresAt": "2030-01-01T01:00:00+01:00"}
    )

    assert made.json()["expiresAt"] == "2030-01-01T00:00:00.000000Z"


async def test_keys_of_another_tenant_are_not_there(admin, call):
    other = await call("Admin", "acme")
    theirs = (await other.get("/api/keys")).json()["items"][0]["id"]

    assert (await admin.delete(f"/api/keys/{theirs}")).json()["code"] == "key-not-found"
    assert (await admin.delete("/api/keys/not-an-id")).status_code == 400
    assert [one["id"] for one in (await admin.get("/api/keys")).json()["items"]] != [theirs]
    assert (await other.get("/api/keys")).json()["items"][0]["revokedAt"] is None


@pytest.mark.parametrize("role", ["Editor", "Operator", "Viewer"])
async def test_access_is_for_those_who_manage_it(call, role):
    caller = await call(role)

    answers = [
        await caller.get("/api/keys"),
        await caller.post("/api/keys", json={}),
        await caller.delete("/api/keys/aaaaaaaaaaaa"),
        await caller.get("/api/roles"),
        await caller.put("/api/roles/X", json={}),
        await caller.delete("/api/roles/X"),
        await caller.get("/api/tenants/default"),
        await caller.put("/api/tenants/default", json={}),
    ]

    assert {(one.status_code, one.json()["capability"]) for one in answers} == {
        (403, "manage_access")
    }


async def test_a_role_is_made_changed_and_deleted(admin, conn):
    made = await admin.put("/api/roles/Courier", json={"capabilities": ["read_entries"]})
    same = await admin.put("/api/roles/Courier", json={"capabilities": ["read_entries"]})
    wider = await admin.put("/api/roles/Courier", json={"capabilities": ["*", "read_entries"]})
    narrower = await admin.put("/api/roles/Courier", json={"capabilities": []})
    deleted = await admin.delete("/api/roles/Courier")

    assert [one.status_code for one in (made, same, wider, narrower, deleted)] == [
        201,
        200,
        200,
        200,
        204,
    ]
    assert made.json() == {"name": "Courier", "capabilities": ["read_entries"], "builtIn": False}
    assert [row[3] for row in await audited(conn, "role.saved", "role.deleted")] == [
        {"name": "Courier", "added": ["read_entries"], "removed": []},
        {"name": "Courier", "added": ["*"], "removed": []},
        {"name": "Courier", "added": [], "removed": ["*", "read_entries"]},
        {"name": "Courier", "added": [], "removed": []},
    ]
    assert (await admin.delete("/api/roles/Courier")).json()["code"] == "role-not-found"


async def test_a_built_in_role_keeps_what_it_holds_and_takes_more(admin, call):
    viewer = await call("Viewer")

    saved = await admin.put("/api/roles/Viewer", json={"capabilities": ["view_audit_log"]})
    listed = (await admin.get("/api/roles")).json()

    assert saved.status_code == 200
    assert saved.json()["capabilities"] == ["view_workflow_runs", "read_entries", "view_audit_log"]
    assert "view_audit_log" in (await viewer.get("/api/me")).json()["capabilities"]
    assert [one["name"] for one in listed["items"]] == ["Admin", "Editor", "Operator", "Viewer"]
    assert (await admin.delete("/api/roles/Viewer")).json()["code"] == "role-built-in"


async def test_a_role_that_a_key_holds_is_not_deleted(admin):
    await admin.put("/api/roles/Courier", json={"capabilities": []})
    made = (await admin.post("/api/keys", json={"name": "x", "role": "Courier"})).json()

    held = await admin.delete("/api/roles/Courier")
    await admin.delete(f"/api/keys/{made['id']}")
    free = await admin.delete("/api/roles/Courier")

    assert (held.status_code, held.json()["code"]) == (409, "role-in-use")
    assert free.status_code == 204


async def test_unknown_capabilities_are_named_by_their_place(admin):
    answer = await admin.put(
        "/api/roles/Courier", json={"capabilities": ["read_entries", "fly", "swim"]}
    )

    assert [one["name"] for one in answer.json()["errors"]] == [
        "capabilities[1]",
        "capabilities[2]",
    ]
    assert (await admin.put("/api/roles/no-name", json={})).status_code == 400


async def test_the_control_token_makes_and_lists_tenants(control, conn):
    body = {"name": "Acme", "timeZone": "Asia/Manila", "currency": "PHP", "siteUrl": None}

    made = await control.put("/api/tenants/acme", json=body)
    same = await control.put("/api/tenants/acme", json=body)
    changed = await control.put("/api/tenants/acme", json={"name": "Acme 2"})
    listed = await control.get("/api/tenants?pageSize=1&page=1")

    assert [one.status_code for one in (made, same, changed)] == [201, 200, 200]
    assert made.json() == {"slug": "acme", **body, "createdAt": made.json()["createdAt"]}
    assert changed.json()["timeZone"] == "UTC"
    assert listed.json() == {
        "items": [changed.json()],
        "page": 1,
        "pageSize": 1,
        "totalItems": 2,
        "totalPages": 2,
        "hasNextPage": True,
        "hasPreviousPage": False,
    }
    assert (await control.get("/api/tenants?page=9")).json()["items"] == []
    assert [row[:4] for row in await audited(conn)] == [
        ("tenant.saved", "Tenant", "acme", {"slug": "acme"})
    ] * 2
    assert (await control.get("/api/tenants/nowhere")).json()["code"] == "tenant-not-found"


async def test_a_key_sees_and_changes_its_own_tenant_only(admin, conn):
    await add_tenant(conn, "other")

    own = await admin.get("/api/tenants/default")
    changed = await admin.put("/api/tenants/default", json={"name": "Ours"})
    theirs = await admin.get("/api/tenants/other")
    not_theirs = await admin.put("/api/tenants/other", json={"name": "Ours"})
    new = await admin.put("/api/tenants/fresh", json={"name": "Fresh"})
    every = await admin.get("/api/tenants")

    assert own.json()["slug"] == "default"
    assert changed.json()["name"] == "Ours"
    assert theirs.json()["code"] == "tenant-not-found"
    here = {"instance": "", "traceId": ""}
    assert not_theirs.json() | here == new.json() | here
    assert (new.status_code, every.status_code) == (403, 403)
    assert new.json()["detail"] == every.json()["detail"] == "This needs the control token."
    await conn.execute("update tenant set name = 'Default' where slug = 'default'")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["name"]),
        ({"name": "x", "timeZone": "Mars/Olympus"}, ["timeZone"]),
        ({"name": "x", "timeZone": "localtime"}, ["timeZone"]),
        ({"name": "x", "timeZone": "Factory"}, ["timeZone"]),
        ({"name": "x", "timeZone": "../etc/passwd", "currency": "usd"}, ["timeZone", "currency"]),
        ({"name": "x", "siteUrl": "example.org"}, ["siteUrl"]),
        ({"name": "x", "siteUrl": "ftp://example.org"}, ["siteUrl"]),
        ({"name": "x", "siteUrl": "http://[::1"}, ["siteUrl"]),
    ],
)
async def test_a_tenant_with_faults_is_refused(control, body, names):
    answer = await control.put("/api/tenants/acme", json=body)

    assert [one["name"] for one in answer.json()["errors"]] == names
    assert (await control.get("/api/tenants/acme")).status_code == 404
    assert (await control.put("/api/tenants/-acme", json={})).status_code == 400


async def test_keys_made_beside_a_deletion_of_their_role_hold_it_or_are_refused(admin, conn):
    await add_key(conn, role="Gone")

    answer = await admin.post("/api/keys", json={"name": "x", "role": "Gone"})

    assert [one["name"] for one in answer.json()["errors"]] == ["role"]
