"""The list of runs: filters, pages, counts, and following what changes."""

from datetime import UTC, datetime, timedelta

import pytest
from fix_api import client_of
from fix_runs import EPOCH, add_run, add_workflow

from procession.api.app import create_app
from procession.api.paths import A_UUID
from procession.api.services import Retention, Services
from procession.engine.run import Action, Status

DONE = Action(status=Status.SUCCEEDED)
FAILED = Action(status=Status.FAILED, retryable=False)


async def get(client, **query):
    answer = await client.get("/api/workflow-runs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(page):
    return [one["id"] for one in page["items"]]


async def add_runs(conn, workflow_id, count, **columns):
    """So many runs, each a second younger than the one before."""
    return [
        str(
            await add_run(
                conn,
                workflow_id,
                created_at=EPOCH + timedelta(seconds=second),
                updated_at=EPOCH + timedelta(seconds=second),
                **columns,
            )
        )
        for second in range(count)
    ]


async def test_the_newest_come_first_and_pages_follow(conn, admin, workflow_id):
    made = await add_runs(conn, workflow_id, 5)

    first, last, beyond = [await get(admin, page=page, pageSize=2) for page in (1, 3, 4)]

    assert ids(first) == made[:-3:-1]
    assert ids(last) == [made[0]]
    assert ids(beyond) == []
    assert first | {"items": []} == {
        "items": [], "page": 1, "pageSize": 2, "totalItems": 5, "totalPages": 3,
        "hasNextPage": True, "hasPreviousPage": False, "cursor": None,
        "statusCounts": {"Pending": 5, "Running": 0, "Succeeded": 0, "Failed": 0,
                         "PartiallyFailed": 0, "Cancelled": 0},
        "succeededRetainedFrom": None, "failedRetainedFrom": None,
    }  # fmt: skip
    assert (last["hasNextPage"], last["hasPreviousPage"]) == (False, True)
    assert (beyond["hasNextPage"], beyond["totalItems"]) == (False, 5)


async def test_filters_narrow_the_list_and_status_leaves_the_counts(conn, admin, workflow_id):
    other = await add_workflow(conn)
    plain = str(await add_run(conn, workflow_id))
    done = str(await add_run(conn, workflow_id, DONE, DONE, entry_id="b-1"))
    failed = str(await add_run(conn, other, FAILED, FAILED, content_type="Page"))

    assert ids(await get(admin, workflowId=str(other))) == [failed]
    assert ids(await get(admin, entryId="b-1")) == [done]
    assert ids(await get(admin, contentType="Page")) == [failed]
    by_status = await get(admin, status="pending")
    assert ids(by_status) == [plain]
    assert by_status["totalItems"] == 1
    assert by_status["statusCounts"]["Failed"] == 1
    both = await get(admin, status="Succeeded", workflowId=str(other))
    assert (ids(both), both["totalItems"]) == ([], 0)
    assert both["statusCounts"]["Failed"] == 1
    assert both["statusCounts"]["Succeeded"] == 0


@pytest.mark.parametrize(
    ("query", "name", "reason"),
    [
        ({"page": "0"}, "page", "must be at least 1"),
        ({"page": "1.0"}, "page", "must be a whole number"),
        ({"pageSize": "101"}, "pageSize", "must be at most 100"),
        ({"pageSize": "0"}, "pageSize", "must be at least 1"),
        (
            {"status": "Done"},
            "status",
            "must be one of Pending, Running, Succeeded, Failed, PartiallyFailed, Cancelled",
        ),
        ({"workflowId": "17"}, "workflowId", A_UUID),
        (
            {"entryId": "a b"},
            "entryId",
            "must be 1 to 200 letters, digits, dots, underscores, colons or dashes",
        ),
        (
            {"contentType": "1"},
            "contentType",
            "must be a letter, then up to 63 letters, digits or underscores",
        ),
        *(
            (
                {"changedSince": text},
                "changedSince",
                "must be a time as in RFC 3339, with its zone, or the cursor of an earlier answer",
            )
            for text in (
                *("", "yesterday", "2020-13-01T00:00:00Z", "2020-01-01T00:00:00", "0~1", "99"),
                "2020-01-01T00:00:00Z~",
                "2020-01-01T00:00:00Z~00000000-0000-0000-0000-000000000000",
                "0001-01-01T00:00:00+23:00",
                "2020-01-01T00:00:00Z\n",
            )
        ),
    ],
)
async def test_a_query_that_means_nothing_is_refused_by_name(admin, query, name, reason):
    answer = await admin.get("/api/workflow-runs", params=query)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert answer.json()["errors"] == [{"name": name, "reason": reason}]


async def test_runs_of_another_tenant_are_not_listed_nor_counted(conn, call, workflow_id):
    await add_run(conn, workflow_id)
    other = await call("Admin", "acme")

    page = await get(other)
    changes = await get(other, changedSince="2000-01-01T00:00:00Z")

    assert (ids(page), sum(page["statusCounts"].values())) == ([], 0)
    assert (ids(changes), changes["totalItems"]) == ([], 0)


async def test_who_may_not_view_runs_is_refused(call):
    nobody = await call("Nobody")

    answer = await nobody.get("/api/workflow-runs")

    assert (answer.status_code, answer.json()["capability"]) == (403, "view_workflow_runs")


async def test_the_answer_says_from_when_finished_runs_are_kept(pool, call):
    kept = Retention(succeeded=timedelta(days=30), failed=None)
    client = await call("Viewer")
    app = create_app(Services(pool=pool, retention=kept))
    async with client_of(app, client.headers) as viewer:
        page = await get(viewer)

    since = datetime.fromisoformat(page["succeededRetainedFrom"])
    assert abs(datetime.now(UTC) - timedelta(days=30) - since) < timedelta(minutes=1)
    assert page["failedRetainedFrom"] is None


async def test_changes_are_followed_page_by_page_to_the_end(conn, admin, workflow_id):
    made = await add_runs(conn, workflow_id, 5)

    first = await get(admin, changedSince="2020-11-30T08:00:01Z", pageSize=2)
    second = await get(admin, changedSince=first["cursor"], pageSize=2)
    rest = await get(admin, changedSince=second["cursor"], pageSize=2)

    assert first["statusCounts"] is None
    assert (ids(first), first["totalItems"]) == (made[1:3], 4)
    assert ids(second) == made[3:]
    assert ids(rest) == []
    moment = datetime.fromisoformat(rest["cursor"].split("~")[0])
    assert timedelta(0) < datetime.now(UTC) - moment < timedelta(seconds=60)


async def test_what_changed_just_now_is_shown_again(conn, admin, workflow_id):
    await add_runs(conn, workflow_id, 1)
    fresh = str(await add_run(conn, workflow_id))

    first = await get(admin, changedSince="2020-01-01T00:00:00Z")
    again = await get(admin, changedSince=first["cursor"])

    assert ids(first)[-1] == fresh
    assert ids(again) == [fresh]
    assert fresh not in first["cursor"]


async def test_a_full_page_of_what_changed_just_now_goes_on_behind_its_last(
    conn, admin, workflow_id
):
    made = {str(await add_run(conn, workflow_id)) for _ in range(3)}

    first = await get(admin, changedSince="2020-01-01T00:00:00Z", pageSize=2)
    second = await get(admin, changedSince=first["cursor"], pageSize=2)

    assert ids(first)[-1] in first["cursor"]
    assert {*ids(first), *ids(second)} == made
    assert not any(one in second["cursor"] for one in made)


async def test_a_cursor_is_of_one_tenant_and_a_time_of_anybody(conn, admin, call, workflow_id):
    stranger = await call("Admin", "acme")
    await add_runs(conn, workflow_id, 3)
    of_a_run = await get(admin, changedSince="2020-01-01T00:00:00Z", pageSize=2)
    of_a_time = await get(admin, changedSince=of_a_run["cursor"].split("~")[0], page=9)

    for cursor in (of_a_run["cursor"], of_a_time["cursor"]):
        answer = await stranger.get("/api/workflow-runs", params={"changedSince": cursor})
        assert answer.status_code == 400
        assert answer.json()["errors"] == [
            {"name": "changedSince", "reason": "is a cursor of another tenant"}
        ]
        assert (await get(admin, changedSince=cursor))["cursor"]


async def test_all_that_is_wrong_with_a_query_is_told_at_once(admin):
    query = {"page": 0, "pageSize": 101, "status": "99", "workflowId": "x", "changedSince": "1"}

    answer = await admin.get("/api/workflow-runs", params=query)

    assert answer.status_code == 400
    assert {one["name"] for one in answer.json()["errors"]} == query.keys()


async def test_changes_are_filtered_too(conn, admin, workflow_id):
    await add_runs(conn, workflow_id, 2)
    done = str(await add_run(conn, workflow_id, DONE, DONE))

    page = await get(admin, changedSince="2020-01-01T00:00:00Z", status="Succeeded")

    assert (ids(page), page["totalItems"]) == ([done], 1)
