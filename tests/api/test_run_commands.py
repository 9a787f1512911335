"""What a person may do to a run: the write, its audit entry, the job that follows, the refusals."""

import asyncio
import uuid
from datetime import UTC, datetime

import pytest
from fix_queue import jobs_that_differ
from fix_runs import EPOCH, WEBHOOKS, add_run, add_workflow, until_blocked
from msgspec.structs import replace

from procession.engine.run import Action, Compensation, Status
from procession.engine.workflow import Compensate, OnFailure

DONE = Action(status=Status.SUCCEEDED, attempts=1, completed_at=EPOCH)
FAILED = Action(
    status=Status.FAILED, attempts=5, failures=5, error="No.", retryable=True, completed_at=EPOCH
)
UNKNOWN = Action(status=Status.UNKNOWN, attempts=1, in_doubt=True, completed_at=EPOCH)
CANCELLED = Action(status=Status.CANCELLED, completed_at=EPOCH)
BEHIND = Action(status=Status.SKIPPED, halted_by=0, error="Behind.", completed_at=EPOCH)
RUNNING = Action(status=Status.RUNNING, attempts=1, started_at=EPOCH)
LATER = EPOCH.replace(year=2126)
WAITS = Action(attempts=1, failures=1, next_attempt_at=LATER, error="503")
FIRST, SECOND = WEBHOOKS.actions
HALTING = replace(WEBHOOKS, actions=(replace(FIRST, on_failure=OnFailure.HALT), SECOND))
UNDOABLE = replace(
    WEBHOOKS,
    actions=(replace(FIRST, compensate=Compensate(type="Webhook", parameters={})), SECOND),
)


async def post(client, run_id, what):
    return await client.post(f"/api/workflow-runs/{run_id}/{what}")


async def audited(conn):
    cursor = await conn.execute(
        "select action, target_id, metadata, actor ->> 'kind' from audit where tenant = 'default'"
        " order by at"
    )
    return await cursor.fetchall()


def statuses(answer):
    assert answer.status_code == 200, answer.text
    return [one["status"] for one in answer.json()["actions"]]


async def test_a_cancel_stops_what_has_not_happened(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, WAITS, Action(in_doubt=True))

    answer = await post(admin, run_id, "cancel")

    assert statuses(answer) == ["Cancelled", "Unknown"]
    assert answer.json()["status"] == "Cancelled"
    assert answer.json()["cancelledAt"] == answer.json()["completedAt"] is not None
    assert answer.json()["waiting"] is None
    about = {"workflow": str(workflow_id), "cancelledActions": 1, "leftRunning": 0}
    assert await audited(conn) == [("workflow.run.cancelled", str(run_id), about, "ApiKey")]
    assert await jobs_that_differ(conn) == []


async def test_a_cancel_leaves_what_is_in_flight_and_a_second_one_writes_nothing(
    conn, admin, workflow_id
):
    run_id = await add_run(conn, workflow_id, RUNNING, Action())

    first = await post(admin, run_id, "cancel")
    again = await post(admin, run_id, "cancel")

    assert statuses(first) == ["Running", "Cancelled"]
    assert first.json()["status"] == "Running"
    assert again.json() == first.json()
    about = {"workflow": str(workflow_id), "cancelledActions": 1, "leftRunning": 1}
    assert [entry[2] for entry in await audited(conn)] == [about]
    assert await jobs_that_differ(conn) == []


async def test_a_cancel_ends_an_attempt_whose_lease_lapsed(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, RUNNING, Action(), live=False)

    answer = await post(admin, run_id, "cancel")

    assert statuses(answer) == ["Unknown", "Cancelled"]
    assert [one["outcome"] for one in answer.json()["actions"][0]["history"]] == ["Unknown"]
    assert await jobs_that_differ(conn) == []


async def test_a_force_end_ends_even_what_is_in_flight(conn, admin, workflow_id):
    await conn.execute("update workflow set deleted_at = now()")
    run_id = await add_run(conn, workflow_id, RUNNING, Action())

    answer = await post(admin, run_id, "force-end")

    assert statuses(answer) == ["Unknown", "Cancelled"]
    assert answer.json()["status"] == "Cancelled"
    about = {"workflow": str(workflow_id), "cancelledActions": 1, "unknownActions": 1}
    assert await audited(conn) == [("workflow.run.force-ended", str(run_id), about, "ApiKey")]
    assert await jobs_that_differ(conn) == []


async def test_a_retry_makes_a_failed_action_due_and_its_job_follows(conn, admin):
    workflow_id = await add_workflow(conn, HALTING)
    run_id = await add_run(conn, workflow_id, FAILED, BEHIND, definition=HALTING)

    answer = await post(admin, run_id, "actions/0/retry")

    assert statuses(answer) == ["Pending", "Pending"]
    action = answer.json()["actions"][0]
    assert (action["attempts"], action["failures"], action["error"]) == (5, 0, None)
    assert answer.json()["completedAt"] is None
    about = {
        "workflow": str(workflow_id), "ordinal": 0, "actionType": "Webhook", "wasUnknown": False,
        "wasPermanent": False, "resumedActions": 1,
    }  # fmt: skip
    assert await audited(conn) == [("workflow.action.retried", str(run_id), about, "ApiKey")]
    assert await jobs_that_differ(conn) == []


async def test_a_retry_of_what_waits_takes_its_job_forward(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, WAITS, DONE)

    answer = await post(admin, run_id, "actions/0/retry")

    assert answer.json()["actions"][0]["nextAttemptAt"] is None
    assert await jobs_that_differ(conn) == []
    cursor = await conn.execute("select scheduled_at from procrastinate_jobs")
    assert await cursor.fetchall() == [(EPOCH,)]


async def test_a_retry_of_what_is_due_already_writes_nothing(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id)
    before = (await admin.get(f"/api/workflow-runs/{run_id}")).json()

    answer = await post(admin, run_id, "actions/0/retry")

    assert answer.json() == before
    assert await audited(conn) == []


async def test_an_abandon_undoes_what_has_happened(conn, admin):
    workflow_id = await add_workflow(conn, UNDOABLE)
    run_id = await add_run(conn, workflow_id, DONE, FAILED, definition=UNDOABLE)

    answer = await post(admin, run_id, "abandon")

    assert answer.json()["compensation"] == "Compensating"
    assert answer.json()["status"] == "Running"
    assert answer.json()["abandonedAt"] is not None
    assert answer.json()["actions"][0]["undo"]["attempts"] == 0
    about = {"workflow": str(workflow_id), "undos": 1, "notDeclared": 0}
    assert await audited(conn) == [("workflow.run.abandoned", str(run_id), about, "ApiKey")]
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(
    "refused",
    [
        ("cancel", (DONE, DONE), {}, "run-finished"),
        ("force-end", (FAILED, DONE), {}, "run-finished"),
        ("abandon", (DONE, DONE), {}, "everything-succeeded"),
        ("abandon", (FAILED, FAILED), {}, "nothing-succeeded"),
        ("abandon", (DONE, RUNNING), {}, "action-in-flight"),
        ("abandon", (DONE, CANCELLED), {"cancelled_at": EPOCH}, "run-cancelled"),
        (
            "abandon",
            (FAILED, DONE),
            {"compensation": Compensation.INCOMPLETE},
            "run-rolled-back",
        ),
        ("actions/0/retry", (DONE, FAILED), {}, "action-succeeded"),
        ("actions/0/retry", (RUNNING, Action()), {}, "action-in-flight"),
        ("actions/0/retry", (FAILED, CANCELLED), {"cancelled_at": EPOCH}, "run-cancelled"),
    ],
)
async def test_a_command_that_may_not_be_is_refused_and_writes_nothing(
    conn, admin, workflow_id, refused
):
    what, actions, columns, code = refused
    run_id = await add_run(conn, workflow_id, *actions, **columns)
    before = (await admin.get(f"/api/workflow-runs/{run_id}")).json()

    answer = await post(admin, run_id, what)

    assert (answer.status_code, answer.json()["code"]) == (409, code)
    assert (await admin.get(f"/api/workflow-runs/{run_id}")).json() == before
    assert await audited(conn) == []
    assert await jobs_that_differ(conn) == []


async def test_what_is_behind_a_halt_is_refused_by_naming_it(conn, admin):
    workflow_id = await add_workflow(conn, HALTING)
    run_id = await add_run(conn, workflow_id, FAILED, BEHIND, definition=HALTING)

    answer = await post(admin, run_id, "actions/1/retry")

    said = answer.json()
    assert said.pop("traceId")
    assert said == {
        "type": "urn:procession:problem:action-skipped-behind-halt",
        "title": "The action is skipped behind a halt",
        "status": 409,
        "detail": "Action 0 halted this run. Retry action 0 to resume.",
        "instance": f"/api/workflow-runs/{run_id}/actions/1/retry",
        "code": "action-skipped-behind-halt",
        "haltedBy": 0,
    }


@pytest.mark.parametrize("what", ["abandon", "actions/1/retry"])
@pytest.mark.parametrize(
    "off",
    [
        ("enabled = false", "workflow-disabled"),
        ("deleted_at = now()", "workflow-deleted"),
    ],
)
async def test_nothing_begins_for_a_workflow_that_is_off(conn, admin, workflow_id, what, off):
    change, code = off
    run_id = await add_run(conn, workflow_id, DONE, UNKNOWN)
    await conn.execute(f"update workflow set {change}")

    answer = await post(admin, run_id, what)

    assert (answer.status_code, answer.json()["code"]) == (409, code)


async def test_a_path_that_names_nothing_is_told_apart(conn, admin, call, workflow_id):
    run_id = await add_run(conn, workflow_id)
    stranger = await call("Admin", "acme")

    answers = [
        await post(admin, run_id, "actions/2/retry"),
        await post(admin, run_id, "actions/-1/retry"),
        await post(admin, run_id, "actions/1.0/retry"),
        await post(admin, "17", "cancel"),
        await post(admin, uuid.uuid4(), "actions/0/retry"),
        *[
            await post(stranger, run_id, what)
            for what in ("cancel", "abandon", "force-end", "actions/0/retry")
        ],
    ]

    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (404, "action-not-found"),
        *[(400, "validation-failed")] * 3,
        *[(404, "run-not-found")] * 5,
    ]
    number = {"name": "ordinal", "reason": "must be a whole number, in 1 to 9 digits"}
    assert answers[1].json()["errors"] == [number]
    assert await jobs_that_differ(conn) == []


@pytest.mark.parametrize(
    ("role", "allowed"), [("Viewer", []), ("Operator", [1, 2, 3]), ("Editor", [0])]
)
async def test_each_command_needs_its_capability(conn, call, workflow_id, role, allowed):
    run_id = await add_run(conn, workflow_id, DONE, DONE)
    client = await call(role)

    answers = [
        await post(client, run_id, what)
        for what in ("cancel", "abandon", "force-end", "actions/0/retry")
    ]

    assert [at for at, one in enumerate(answers) if one.status_code != 403] == allowed


async def test_a_run_that_a_newer_release_wrote_is_left_alone(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, document_format=2)

    answer = await post(admin, run_id, "cancel")

    assert (answer.status_code, answer.json()["code"]) == (409, "run-changed")


async def test_a_command_waits_for_a_write_of_the_run_and_decides_on_what_became(
    conn, pool, admin, workflow_id
):
    run_id = await add_run(conn, workflow_id, Action(), DONE)
    async with pool.connection() as worker, worker.transaction():
        await worker.execute("select from run where id = %s for no key update", (run_id,))
        waiting = asyncio.create_task(post(admin, run_id, "cancel"))
        await until_blocked(conn)
        await worker.execute(
            "update run set status = 'Succeeded', completed_at = %s, due_at = null,"
            " due_ordinal = null, due_type = null, version = version + 1,"
            """ actions = jsonb_set(actions, '{0,status}', '"Succeeded"') where id = %s""",
            (datetime.now(UTC), run_id),
        )

    answer = await waiting

    assert (answer.status_code, answer.json()["code"]) == (409, "run-finished")


async def test_a_retry_holds_the_workflow_before_its_run(conn, pool, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, DONE, FAILED)
    async with pool.connection() as other, other.transaction():
        await other.execute("select from workflow where id = %s for update", (workflow_id,))
        waiting = asyncio.create_task(post(admin, run_id, "actions/1/retry"))
        await until_blocked(conn)
        await other.execute("select from run where id = %s for update nowait", (run_id,))
        await other.execute("update workflow set deleted_at = now() where id = %s", (workflow_id,))

    answer = await waiting

    assert (answer.status_code, answer.json()["code"]) == (409, "workflow-deleted")
