"""Runs that cannot be read: edited by hand, or written by a newer release. They are listed by their
columns, hold up nothing, and nobody decides on them."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from fix_runs import EPOCH, add_run, add_worker, add_workflow
from psycopg.types.json import Jsonb

from procession.engine.run import Action, Compensation, Status
from procession.queue import stored_run, unread

LONG = Random(7).randbytes(2_000).hex()  # which does not pack well
ODD = {
    "an unknown status": '[{"status": "Dreaming"}, {}]',
    "a number in words": '[{"attempts": "x"}, {}]',
    "a time without a zone": '[{"next_attempt_at": "2026-11-30T08:00:00"}, {}]',
    "no time": '[{"completed_at": 9}, {}]',
    "one action too few": "[{}]",
    "one action too many": "[{}, {}, {}]",
    "an object": "{}",
    "a text": '"Pending"',
    "null": "null",
    "a long object": f'{{"body": "{LONG}"}}',
    "long texts": f'["{LONG}", 1]',
    "a long list in a list": f'[["{LONG}"], {{"undo": ["{LONG}"]}}]',
    "a long undo of text": f'[{{"undo": "{LONG}", "body": "{LONG}"}}, {{}}]',
}
ODD["undos without end"] = "[" + '{"undo": ' * 3_000 + "{}" + "}" * 3_000 + ", {}]"
DONE = Action(status=Status.SUCCEEDED, completed_at=EPOCH)
RUNNING = Action(status=Status.RUNNING, attempts=1, started_at=EPOCH)
AS_STORED = "select workflow_id, to_jsonb(run)::text from run order by id"
COMMANDS = ("cancel", "abandon", "force-end", "actions/0/retry", "actions/1/retry")


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch):
    monkeypatch.setattr(stored_run, "_unread", unread.Unread())


async def get(client, path="", **query):
    answer = await client.get(f"/api/workflow-runs{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def edit(conn, run_id, column="actions", document="[]"):
    await conn.execute(f"update run set {column} = %s where id = %s", (document, run_id))


@pytest.fixture
async def odd(conn, workflow_id, request):
    """A due run of an odd document, between two that are whole."""
    at = [EPOCH + timedelta(minutes=one) for one in range(3)]
    ids = [await add_run(conn, workflow_id, created_at=one, updated_at=one) for one in at]
    await edit(conn, ids[1], "actions", ODD[request.param])
    return [str(one) for one in ids]


@pytest.mark.parametrize("odd", ODD, indirect=True)
async def test_it_is_shown_by_its_columns_among_the_others(conn, admin, odd, caplog):
    await add_worker(conn, "Webhook")

    listed, one = await get(admin), await get(admin, f"/{odd[1]}")

    assert [len(run["actions"]) for run in listed["items"]] == [2, 0, 2]
    assert listed["statusCounts"]["Pending"] == 3
    assert one == listed["items"][1]
    whole = listed["items"][0]
    own = {"id", "createdAt", "updatedAt", "actions"}
    assert {k: v for k, v in one.items() if k not in own} == {
        k: v for k, v in whole.items() if k not in own
    }
    assert one["waiting"] == {"reason": "Due", "ordinal": 0}
    assert len([x for x in caplog.records if odd[1] in x.getMessage()]) == 1


@pytest.mark.parametrize("odd", ODD, indirect=True)
async def test_whoever_follows_the_changes_gets_past_it(admin, odd):
    first = await get(admin, changedSince="2020-01-01T00:00:00Z", pageSize=2)
    rest = await get(admin, changedSince=first["cursor"], pageSize=2)

    assert [one["id"] for one in (*first["items"], *rest["items"])] == odd


@pytest.mark.parametrize("odd", ODD, indirect=True)
async def test_each_command_on_it_is_refused_and_changes_nothing(conn, admin, odd):
    before = await (await conn.execute(AS_STORED)).fetchall()

    answers = [await admin.post(f"/api/workflow-runs/{odd[1]}/{what}") for what in COMMANDS]
    deleted = await admin.delete(f"/api/workflows/{before[0][0]}")

    for answer in (*answers, deleted):
        assert (answer.status_code, answer.json()["code"]) == (409, "run-changed")
        assert odd[1] in answer.json()["detail"]
    assert await (await conn.execute(AS_STORED)).fetchall() == before
    assert (await conn.execute("select from audit")).rowcount == 0
    for other in (odd[0], odd[2]):
        assert (await admin.post(f"/api/workflow-runs/{other}/cancel")).status_code == 200


async def test_a_workflow_is_deleted_once_its_odd_runs_have_ended(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, DONE, DONE)
    await edit(conn, run_id, "actions", "{}")

    assert (await admin.delete(f"/api/workflows/{workflow_id}")).status_code == 204


async def test_one_of_a_newer_release_says_whom_it_waits_for(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, document_format=2)
    await edit(conn, run_id, "actions", '[{"status": "Dreaming"}, {}]')
    await add_worker(conn, "Webhook")

    run = await get(admin, f"/{run_id}")
    answer = await admin.post(f"/api/workflow-runs/{run_id}/force-end")

    assert run["waiting"] == {"reason": "NoWorker", "ordinal": 0, "actionType": "Webhook"}
    assert (answer.status_code, answer.json()["code"]) == (409, "run-changed")
    assert answer.json()["detail"].startswith("A newer release has written the run")


async def test_one_in_flight_says_until_when(conn, admin, workflow_id):
    until = datetime(2126, 1, 1, tzinfo=UTC)
    run_id = await add_run(conn, workflow_id, RUNNING, lease_until=until)
    await edit(conn, run_id, "actions", '[{"status": "Running", "attempts": "x"}, {}]')

    run = await get(admin, f"/{run_id}")

    assert run["waiting"] == {"reason": "LeaseHeld", "until": "2126-01-01T00:00:00.000000Z"}


@pytest.mark.parametrize(
    ("column", "document"),
    [("outputs", '{"x": {}}'), ("outputs", "[]"), ("started_by", '{"kind": "Ghost"}')],
)
async def test_other_documents_of_it_are_as_good_as_its_actions(
    conn, admin, workflow_id, column, document
):
    who = {"kind": "ApiKey", "id": "abcdefghijkl", "name": "tests"}
    run_id = await add_run(conn, workflow_id, DONE, DONE, started_by=Jsonb(who))
    await edit(conn, run_id, column, document)

    run = await get(admin, f"/{run_id}")

    assert (run["status"], run["actions"]) == ("Succeeded", [])
    assert run["startedBy"] == (None if column == "started_by" else who)


async def test_a_definition_that_cannot_be_read_takes_only_its_actions_along(
    conn, admin, workflow_id
):
    run_id = await add_run(conn, workflow_id, DONE, DONE)
    await conn.execute("update workflow_version set definition = '{}'")

    assert (await get(admin, f"/{run_id}"))["actions"] == []


async def test_what_cannot_be_stored_of_a_command_is_refused(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, RUNNING, Action(), live=False)
    huge = '[{"status": "Running", "attempts": 9999999999}, {}]'
    await edit(conn, run_id, "actions", huge)

    answer = await admin.post(f"/api/workflow-runs/{run_id}/cancel")

    assert (answer.status_code, answer.json()["code"]) == (409, "run-changed")
    assert (await get(admin, f"/{run_id}"))["actions"][0]["attempts"] == 9999999999


async def test_a_rollback_that_nothing_goes_on_with_can_be_ended(conn, admin):
    workflow_id = await add_workflow(conn)
    run_id = await add_run(conn, workflow_id, DONE, Action())
    await conn.execute("update run set compensation = %s", (Compensation.COMPENSATING,))

    assert (await get(admin, f"/{run_id}"))["waiting"]["reason"] == "NoWorker"
    assert (await admin.post(f"/api/workflow-runs/{run_id}/cancel")).json()["status"] == "Cancelled"


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("infinity", "9999-12-31T23:59:59.999999Z"),
        ("20000-01-01", "9999-12-31T23:59:59.999999Z"),
        ("0044-03-15 BC", "0001-01-01T00:00:00.000000Z"),
    ],
)
async def test_a_time_that_no_calendar_has_is_shown_as_the_end_of_all_time(
    conn, admin, workflow_id, moment, told
):
    ids = [str(await add_run(conn, workflow_id)) for _ in range(3)]
    for column in ("created_at", "updated_at", "no_worker_since"):
        await edit(conn, ids[1], column, moment)
    for table in ("workflow", "tenant"):
        await conn.execute(f"update {table} set created_at = %s", (moment,))

    listed, one = await get(admin), await get(admin, f"/{ids[1]}")

    assert {run["id"] for run in listed["items"]} == set(ids)
    assert one["createdAt"] == one["updatedAt"] == told
    assert one["waiting"]["reason"] == "NoWorker"
    workflows = (await admin.get("/api/workflows")).json()["items"]
    assert [x["createdAt"] for x in workflows] == [told]
    cancelled = await admin.post(f"/api/workflow-runs/{ids[1]}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "Cancelled")
