"""Entries: what a write answers, what it refuses, and who may read it."""

from fix_api import add_workflow, declare

FIRST = "/api/entries/Article/a-1"


async def test_an_entry_is_created_read_replaced_and_deleted(admin):
    await declare(admin)

    created = await admin.put(FIRST, json={"data": {"Title": "One"}})
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    assert created.json()["events"] == ["Created"]
    assert created.json()["runIds"] == created.json()["warnings"] == []
    entry = created.json()["entry"]
    assert {name: entry[name] for name in ("id", "contentType", "status", "sensitivity")} == {
        "id": "a-1",
        "contentType": "Article",
        "status": "Draft",
        "sensitivity": "Public",
    }
    assert entry["createdBy"].keys() == {"kind", "id", "name"}
    assert entry["createdAt"] == entry["updatedAt"]
    assert entry["createdAt"].endswith("Z")
    assert len(entry["createdAt"]) == 27

    replaced = await admin.put(FIRST, json={"data": {"Title": "Two"}, "status": "Published"})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert replaced.json()["events"] == ["Updated", "Published"]

    read = await admin.get(FIRST)
    assert (read.json(), read.headers["etag"]) == (replaced.json()["entry"], '"2"')

    deleted = await admin.delete(FIRST)
    assert (deleted.status_code, deleted.json()) == (200, {"events": ["Deleted"], "runIds": []})
    assert (await admin.get(FIRST)).json()["code"] == "entry-not-found"


async def test_a_write_that_changes_nothing_fires_nothing_and_keeps_the_version(admin):
    await declare(admin)
    body = {"data": {"Rank": 1, "Extra": {"a": 1, "b": [1e300, 0.5]}}, "status": "Published"}
    await admin.put(FIRST, json=body)

    reordered = {"Extra": {"b": [1e300, 0.5], "a": 1}, "Rank": 1.0}
    again = await admin.put(FIRST, json={"data": reordered})

    assert (again.status_code, again.json()["version"], again.json()["events"]) == (200, 1, [])


async def test_a_workflow_fires_once_for_each_event_in_order(admin, conn):
    await declare(admin)
    both = [await add_workflow(conn, "Created", "Published") for _ in range(2)]

    saved = (await admin.put(FIRST, json={"data": {}, "status": "Published"})).json()

    assert saved["events"] == ["Created", "Published"]
    rows = await (
        await conn.execute("select id::text, trigger, workflow_id::text, event_sequence from run")
    ).fetchall()
    found = {row[0]: row[1:] for row in rows}
    assert [found[one][:2] for one in saved["runIds"]] == [
        (event, workflow) for event in ("Created", "Published") for workflow in sorted(both)
    ]
    sequences = [found[one][2] for one in saved["runIds"]]
    assert sequences[0] == sequences[1] < sequences[2] == sequences[3]
