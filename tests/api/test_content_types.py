"""Content types."""

import pytest
from fix_api import ARTICLE, declare

PATH = "/api/content-types/Article"


async def test_a_content_type_is_made_read_changed_and_deleted(admin, conn):
    made = await admin.put(PATH, json=ARTICLE)
    same = await admin.put(PATH, json=ARTICLE)
    changed = await admin.put(PATH, json={"fields": {"Title": {"type": "text"}}})
    read = await admin.get(PATH)
    deleted = await admin.delete(PATH)
    gone = [await admin.get(PATH), await admin.delete(PATH)]

    assert [one.status_code for one in (made, same, changed, deleted)] == [201, 200, 200, 204]
    assert made.json()["fields"]["Title"] == {"type": "text", "sensitivity": "Public"}
    assert made.json()["fields"]["Secret"] == {"type": "text", "sensitivity": "Hidden"}
    assert made.json()["lifecycle"] == ARTICLE["lifecycle"]
    assert same.json() == made.json()
    assert read.json() == changed.json()
    assert read.json()["lifecycle"] == {
        "statuses": ["Draft", "Published", "Archived"],
        "transitions": {},
    }
    assert [one.json()["code"] for one in gone] == ["content-type-not-found"] * 2
    audit = await conn.execute(
        "select action, target_type, target_id, metadata from audit order by at"
    )
    target = ("ContentType", "Article", {"name": "Article"})
    assert await audit.fetchall() == [
        ("content-type.saved", *target),
        ("content-type.saved", *target),
        ("content-type.deleted", *target),
    ]


async def test_content_types_are_listed_by_name_in_pages(admin, call):
    for name in ("Beta", "Alpha", "Gamma"):
        await declare(admin, name, {})
    await declare(await call("Admin", "acme"), "Theirs", {})

    first = (await admin.get("/api/content-types?pageSize=2")).json()
    second = (await admin.get("/api/content-types?pageSize=2&page=2")).json()
    past = (await admin.get("/api/content-types?pageSize=2&page=3")).json()

    assert [one["name"] for one in first["items"] + second["items"]] == ["Alpha", "Beta", "Gamma"]
    assert [(one["hasPreviousPage"], one["hasNextPage"]) for one in (first, second, past)] == [
        (False, True),
        (True, False),
        (True, False),
    ]
    assert (past["items"], past["totalItems"], past["totalPages"]) == ([], 3, 2)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ([], ["body"]),
        ({"fields": []}, ["fields"]),
        ({"fields": {"Title": {"type": "Text"}}}, ["fields.Title.type"]),
        ({"fields": {"Title": {"type": 1}}}, ["fields.Title.type"]),
        ({"fields": {"Title": {"sensitivity": "public"}}}, ["fields.Title.sensitivity"]),
        ({"fields": {"1st": {}, "a-b": {}}}, ["fields.1st", "fields.a-b"]),
        ({"lifecycle": {"statuses": []}}, ["lifecycle.statuses"]),
        ({"lifecycle": {"statuses": ["A", "A"]}}, ["lifecycle.statuses[1]"]),
        (
            {"lifecycle": {"statuses": ["A"], "transitions": {"Go": {"from": ["B"], "to": "C"}}}},
            ["lifecycle.transitions.Go.from[0]", "lifecycle.transitions.Go.to"],
        ),
    ],
)
async def test_a_content_type_with_faults_is_refused(admin, body, names):
    answer = await admin.put(PATH, json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == names
    assert (await admin.get(PATH)).status_code == 404


async def test_a_content_type_with_entries_is_in_use(admin):
    await declare(admin)
    await admin.put("/api/entries/Article/a-1", json={"data": {}})

    held = await admin.delete(PATH)
    await admin.delete("/api/entries/Article/a-1")
    free = await admin.delete(PATH)

    assert (held.status_code, held.json()["code"]) == (409, "content-type-in-use")
    assert free.status_code == 204


async def test_another_tenants_content_type_is_not_there(admin, call):
    await declare(await call("Admin", "acme"))

    assert (await admin.get(PATH)).status_code == 404
    assert (await admin.delete(PATH)).status_code == 404
    assert (await admin.get("/api/content-types")).json()["items"] == []


async def test_reading_takes_less_than_writing(call):
    viewer, operator = await call("Viewer"), await call("Operator")

    assert (await viewer.get("/api/content-types")).status_code == 200
    for answer in (await operator.put(PATH, json={}), await viewer.delete(PATH)):
        assert answer.json()["capability"] == "manage_entries"
    assert (await viewer.get("/api/content-types/no-name")).status_code == 400
