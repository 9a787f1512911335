"""Entries: what a write answers, what it refuses, and who may read it."""

import re
from urllib.parse import quote

import pytest
from fix_api import ARTICLE, declare

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
    assert len(entry["createdAt"]) == len("2026-11-30T08:00:00.000000Z")

    replaced = await admin.put(FIRST, json={"data": {"Title": "Two"}, "status": "Published"})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert replaced.json()["events"] == ["Updated", "Published"]
    assert replaced.json()["entry"]["createdAt"] == entry["createdAt"]

    read = await admin.get(FIRST)
    assert (read.json(), read.headers["etag"]) == (replaced.json()["entry"], '"2"')

    deleted = await admin.delete(FIRST)
    assert (deleted.status_code, deleted.json()) == (200, {"events": ["Deleted"], "runIds": []})
    gone = [await admin.get(FIRST), await admin.delete(FIRST)]
    assert [one.json()["code"] for one in gone] == ["entry-not-found"] * 2


async def test_a_write_that_changes_nothing_fires_nothing_and_keeps_the_version(admin):
    await declare(admin)
    body = {"data": {"Rank": 1, "Extra": {"a": 1, "b": [1e300, 0.5]}}, "status": "Published"}
    first = await admin.put(FIRST, json=body)

    reordered = {"Extra": {"b": [1e300, 0.5], "a": 1}, "Rank": 1.0}
    again = await admin.put(FIRST, json={"data": reordered})

    assert (again.status_code, again.json()["version"], again.json()["events"]) == (200, 1, [])
    assert again.json()["entry"]["updatedAt"] == first.json()["entry"]["updatedAt"]


async def test_what_a_replacement_leaves_out_is_kept_but_for_the_data(admin):
    await declare(admin)
    body = {"data": {"Title": "One"}, "status": "Review", "sensitivity": "Sensitive"}
    await admin.put(FIRST, json=body)

    replaced = await admin.put(
        FIRST, json={"data": {"Rank": 1}, "status": None, "sensitivity": None, "unknown": 1}
    )

    entry = replaced.json()["entry"]
    assert (entry["status"], entry["sensitivity"], entry["data"]) == (
        "Review",
        "Sensitive",
        {"Rank": 1},
    )


async def test_a_change_of_sensitivity_raises_the_version_and_fires_nothing(admin):
    await declare(admin)
    await admin.put(FIRST, json={"data": {}})

    saved = await admin.put(FIRST, json={"data": {}, "sensitivity": "Hidden"})

    assert (saved.json()["version"], saved.json()["events"]) == (2, [])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ([], ["body"]),
        ({}, ["data"]),
        ({"data": []}, ["data"]),
        ({"data": None}, ["data"]),
        ({"data": {}, "status": "published"}, ["status"]),
        ({"data": {}, "status": 1}, ["status"]),
        ({"data": {}, "sensitivity": "public"}, ["sensitivity"]),
        ({"data": {}, "sensitivity": 0}, ["sensitivity"]),
        ({"data": {}, "status": [], "sensitivity": {}}, ["status", "sensitivity"]),
        (
            {
                "status": "Nope",
                "data": {
                    "Title": 1,
                    "Price": "1,5",
                    "Rank": "1",
                    "Live": 1,
                    "Day": "30.11.2026",
                    "Author": {"id": "x"},
                },
            },
            [
                "status",
                "data.Title",
                "data.Price",
                "data.Rank",
                "data.Live",
                "data.Day",
                "data.Author",
            ],
        ),
    ],
)
async def test_all_faults_are_told_at_once_and_nothing_is_stored(admin, conn, body, names):
    await declare(admin)

    answer = await admin.put(FIRST, json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == names
    assert (await (await conn.execute("select count(*) from entry")).fetchone()) == (0,)


async def test_values_that_fit_are_taken_and_null_always_fits(admin):
    await declare(admin)
    data = {
        "Title": "x",
        "Price": "12.50",
        "Rank": 2.5,
        "Live": False,
        "Day": "2026-11-30T08:00:00Z",
        "Extra": [{"a": None}],
        "Author": [{"contentType": "Person", "id": "p-1"}],
    }

    full = await admin.put(FIRST, json={"data": data})
    empty = await admin.put(FIRST, json={"data": dict.fromkeys(data)})

    assert full.json()["entry"]["data"] == data
    assert empty.json()["entry"]["data"] == dict.fromkeys(data)


async def test_a_field_that_is_not_declared_is_stored_warned_of_and_hidden(admin, conn):
    await declare(admin)

    saved = await admin.put(FIRST, json={"data": {"Titel": "x", "Title": "y"}})

    assert [one["field"] for one in saved.json()["warnings"]] == ["data.Titel"]
    assert saved.json()["entry"]["data"] == {"Title": "y"}
    stored = await (await conn.execute("select data from entry")).fetchone()
    assert stored == ({"Titel": "x", "Title": "y"},)
    many = await admin.put(FIRST, json={"data": {f"x{n}": n for n in range(60)}})
    assert len(many.json()["warnings"]) == 51
    assert many.json()["warnings"][-1] == {"field": "", "message": "10 more warnings are left out"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/entries/Article/a%20b",
        "/api/entries/Article/" + "x" * 201,
        "/api/entries/no-name/a-1",
        "/api/entries/Article/%C3%BC",
        "/api/entries/Article/a%00",
    ],
)
async def test_a_malformed_id_is_refused(admin, path):
    await declare(admin)

    for answer in (await admin.get(path), await admin.put(path, json={"data": {}})):
        assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")


async def test_versions_are_asked_for_by_if_match(admin):
    await declare(admin)

    async def save(title, **headers):
        return await admin.put(FIRST, json={"data": {"Title": title}}, headers=headers)

    missing = await save("x", **{"If-Match": '"1"'})
    created = await save("1", **{"If-None-Match": "*"})
    again = await save("2", **{"If-None-Match": "*"})
    stale = await save("2", **{"If-Match": '"2"'})
    current = await save("2", **{"If-Match": '"1"'})
    wrong = await save("3", **{"If-Match": "2"})

    assert [one.status_code for one in (missing, created, again, stale, current, wrong)] == [
        412,
        201,
        412,
        412,
        200,
        400,
    ]
    assert (stale.json()["code"], stale.json()["version"]) == ("version-mismatch", 1)
    assert (await admin.delete(FIRST, headers={"If-Match": '"1"'})).status_code == 412
    assert (await admin.delete(FIRST, headers={"If-Match": '"2"'})).status_code == 200


async def test_a_transition_is_performed_by_its_name_in_any_case(admin):
    await declare(admin)
    await admin.put(FIRST, json={"data": {"Title": "x"}})

    submitted = await admin.post(f"{FIRST}/transitions/submit")
    approved = await admin.post(f"{FIRST}/transitions/APPROVE", headers={"If-Match": '"2"'})
    recalled = await admin.post(f"{FIRST}/transitions/Recall")

    assert [one.json()["events"] for one in (submitted, approved, recalled)] == [
        ["transition:Submit"],
        ["Published", "transition:Approve"],
        ["Unpublished", "transition:Recall"],
    ]
    assert [one.headers["etag"] for one in (submitted, approved, recalled)] == ['"2"', '"3"', '"4"']
    assert recalled.json()["entry"]["data"] == {"Title": "x"}


async def test_a_transition_is_refused_in_this_order(admin):
    await declare(admin)
    await admin.put(FIRST, json={"data": {}})

    async def perform(path):
        answer = await admin.post(path, headers={"If-Match": '"9"'})
        return answer.status_code, answer.json()["code"]

    assert await perform("/api/entries/Nope/a-1/transitions/Submit") == (404, "entry-not-found")
    assert await perform("/api/entries/Article/a-2/transitions/X") == (404, "entry-not-found")
    assert await perform(f"{FIRST}/transitions/Nope") == (404, "transition-not-found")
    assert await perform(f"{FIRST}/transitions/Approve") == (409, "transition-not-allowed")
    assert await perform(f"{FIRST}/transitions/Submit") == (412, "version-mismatch")
    answer = await admin.post(f"{FIRST}/transitions/Approve")
    assert answer.json()["from"] == ["Review"]


async def test_a_status_may_be_written_that_no_transition_leads_to(admin):
    await declare(admin)

    saved = await admin.put(FIRST, json={"data": {}, "status": "Archived"})

    assert (saved.json()["entry"]["status"], saved.json()["events"]) == ("Archived", ["Created"])


async def test_entries_and_fields_are_seen_by_sensitivity(admin, call):
    viewer = await call("Viewer")
    await declare(admin)
    data = {"Title": "a", "Note": "b", "Secret": "c", "Other": "d"}
    for sensitivity in ("Public", "Sensitive", "Hidden"):
        body = {"data": data, "sensitivity": sensitivity}
        await admin.put(f"/api/entries/Article/{sensitivity}", json=body)

    seen = {}
    for name, caller in (("admin", admin), ("viewer", viewer)):
        answers = {
            one: await caller.get(f"/api/entries/Article/{one}")
            for one in ("Public", "Sensitive", "Hidden")
        }
        seen[name] = {one: answer.json().get("data") for one, answer in answers.items()}

    assert seen == {
        "admin": {one: {"Title": "a", "Note": "b"} for one in ("Public", "Sensitive", "Hidden")},
        "viewer": {"Public": {"Title": "a"}, "Sensitive": None, "Hidden": None},
    }
    listed = [(await one.get("/api/entries/Article")).json() for one in (admin, viewer)]
    assert [one["totalItems"] for one in listed] == [3, 1]
    assert [one["data"] for one in listed[1]["items"]] == [{"Title": "a"}]
    hidden = await viewer.get("/api/entries/Article/Hidden")
    assert (hidden.status_code, hidden.json()["code"]) == (404, "entry-not-found")


async def test_entries_are_listed_by_id_and_status_in_pages(admin):
    await declare(admin)
    for entry_id, status in (("c", "Draft"), ("a", "Draft"), ("b", "Published"), ("B", "Draft")):
        await admin.put(f"/api/entries/Article/{entry_id}", json={"data": {}, "status": status})

    async def ids(query):
        answer = (await admin.get(f"/api/entries/Article?{query}")).json()
        return [one["id"] for one in answer["items"]], answer["totalItems"]

    every, total = await ids("")
    assert (sorted(every), total) == (["B", "a", "b", "c"], 4)
    assert await ids("status=published") == (["b"], 1)
    assert await ids("status=Review") == ([], 0)
    assert await ids("pageSize=3&page=2") == (every[3:], 4)
    assert await ids("page=7") == ([], 4)
    unknown = await admin.get("/api/entries/Article?status=Nope")
    assert (unknown.status_code, unknown.json()["errors"][0]["name"]) == (400, "status")
    assert "Review" in unknown.json()["errors"][0]["reason"]
    nowhere = await admin.get("/api/entries/Nope")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "content-type-not-found")


async def test_another_tenants_entry_is_not_there(admin, call):
    await declare(admin)
    other = await call("Admin", "acme")
    await declare(other)
    await other.put(FIRST, json={"data": {"Title": "theirs"}})

    answers = [
        await admin.get(FIRST),
        await admin.delete(FIRST),
        await admin.post(f"{FIRST}/transitions/Submit"),
    ]
    ours = await admin.put(FIRST, json={"data": {"Title": "ours"}})

    assert [one.json()["code"] for one in answers] == ["entry-not-found"] * 3
    assert ours.status_code == 201
    assert (await other.get(FIRST)).json()["data"] == {"Title": "theirs"}
    assert (await admin.get("/api/entries/Article")).json()["totalItems"] == 1


async def test_a_changed_content_type_touches_no_entry(admin):
    await declare(admin)
    await admin.put(FIRST, json={"data": {"Title": "x", "Rank": 1}, "status": "Review"})

    await declare(admin, body={"fields": {"Title": {"type": "number"}}})

    read = (await admin.get(FIRST)).json()
    assert (read["status"], read["data"], read["version"]) == ("Review", {"Title": "x"}, 1)
    kept = await admin.put(FIRST, json={"data": {"Title": 1}})
    assert (kept.status_code, kept.json()["entry"]["status"]) == (200, "Review")
    assert "Submit" in ARTICLE["lifecycle"]["transitions"]
    gone = await admin.post(f"{FIRST}/transitions/Submit")
    assert gone.json()["code"] == "transition-not-found"


@pytest.mark.parametrize("role", ["Viewer", "Operator"])
async def test_who_only_reads_writes_nothing(call, role):
    caller = await call(role)

    answers = [
        await caller.put(FIRST, json={"data": {}}),
        await caller.delete(FIRST),
        await caller.post(f"{FIRST}/transitions/Submit"),
    ]

    assert {(one.status_code, one.json()["capability"]) for one in answers} == {
        (403, "manage_entries")
    }


@pytest.mark.parametrize("step", ["%2E", "%2E%2E"])
async def test_an_id_that_is_a_step_in_a_path_is_not_saved(admin, step):
    await declare(admin)

    refused = await admin.put(f"/api/entries/Article/{step}", json={"data": {}})
    listed = await admin.get("/api/entries/Article")

    assert (refused.status_code, refused.json()["code"]) == (400, "validation-failed")
    assert refused.json()["errors"] == [{"name": "id", "reason": "must be neither . nor .."}]
    assert listed.json()["totalItems"] == 0
    assert (await admin.get(f"/api/entries/Article/{step}")).status_code == 404


IDS = [".", "..", "...", ".a", "..a", "a.", "a..", "....", ":", ".:", "a-17", "x" * 200]
IDS += ["x" * 201, "." * 200, "." * 201, "a b", "ä", ".~"]


async def test_an_id_may_be_saved_if_it_is_described_so_and_only_then(admin):
    await declare(admin)
    described = (await admin.get("/openapi.json")).json()["paths"]
    parameters = described["/api/entries/{contentType}/{id}"]["put"]["parameters"]
    (shape,) = [one["schema"] for one in parameters if one["name"] == "id"]

    for name in IDS:
        path = quote(name, safe="").replace(".", "%2E")
        saved = await admin.put(f"/api/entries/Article/{path}", json={"data": {}})
        fits = re.search(shape["pattern"], name) and len(name) <= shape["maxLength"]
        assert saved.status_code == (201 if fits else 400), name


@pytest.mark.parametrize(
    "number", ["1.2345678901234568e+29", "-1e16", "1e308", "-0.0", "1e-7", "9e15", "0.1", "1.0"]
)
async def test_a_save_answers_a_number_as_it_is_read_later(admin, number):
    await declare(admin)
    body = f'{{"data": {{"Rank": {number}, "Extra": [{{"a": {number}}}]}}}}'

    where, headers = "/api/entries/Article/a-1", {"Content-Type": "application/json"}
    saved = await admin.put(where, content=body, headers=headers)
    again = await admin.put(where, content=body, headers=headers)
    read = await admin.get(where)

    assert saved.status_code == 201, saved.text
    told = [one.text.partition('"data":')[2].partition(',"version"')[0] for one in (saved, read)]
    assert told[0] == told[1]
    assert again.json()["version"] == 1
