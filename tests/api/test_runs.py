"""Reading one run: exactly what is promised of it, and why it waits."""

import uuid
from datetime import timedelta

import pytest
from fix_runs import (
    EPOCH,
    WEBHOOKS,
    add_attempt,
    add_run,
    add_worker,
    add_workflow,
)
from msgspec.structs import replace
from psycopg.types.json import Jsonb

from procession.api.paths import A_UUID
from procession.engine.run import Action, Compensation, Status
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure

RETRY_AT = EPOCH.replace(year=2126)
ERROR = "The receiver answered 503."


async def get(client, run_id):
    answer = await client.get(f"/api/workflow-runs/{run_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_run_is_shown_with_every_field_and_no_other(conn, admin):
    definition = replace(
        WEBHOOKS,
        actions=(
            replace(WEBHOOKS.actions[0], on_failure=OnFailure.HALT),
            ActionDefinition(type="Email", parameters={"To": "a@example.org"}),
        ),
    )
    workflow_id = await add_workflow(conn, definition)
    waiting = Action(
        attempts=1,
        failures=1,
        next_attempt_at=RETRY_AT,
        response_status=503,
        error=ERROR,
        duration_ms=212,
        in_doubt=True,
        body="{}",
    )
    run_id = await add_run(
        conn,
        workflow_id,
        waiting,
        Action(),
        definition=definition,
        correlation_id="req-9",
        updated_at=EPOCH,
    )
    await add_attempt(
        conn, run_id, 1, response_status=503, error=ERROR, retryable=True, duration_ms=212
    )

    shown = await get(admin, run_id)

    assert shown == {
        "id": str(run_id), "workflowId": str(workflow_id), "workflowName": "Announce article",
        "workflowVersion": 1, "entryId": "a-17", "contentType": "Article",
        "trigger": "Published", "status": "Pending",
        "waiting": {"reason": "RetryAt", "until": "2126-11-30T08:00:00.000000Z", "ordinal": 0},
        "depth": 0, "executor": None, "startedBy": None, "correlationId": "req-9",
        "createdAt": "2020-11-30T08:00:00.000000Z", "updatedAt": "2020-11-30T08:00:00.000000Z",
        "completedAt": None, "cancelledAt": None, "abandonedAt": None, "compensation": None,
        "actions": [
            {"ordinal": 0, "type": "Webhook", "onFailure": "Halt", "status": "Pending",
             "attempts": 1, "failures": 1, "nextAttemptAt": "2126-11-30T08:00:00.000000Z",
             "responseStatus": 503, "error": ERROR, "retryable": None, "completedAt": None,
             "durationMs": 212, "haltedBy": None, "outputs": {}, "compensation": None,
             "undo": None, "droppedAttempts": 0,
             "history": [
                 {"attempt": 1, "startedAt": "2020-11-30T08:00:00.000000Z",
                  "finishedAt": "2020-11-30T08:00:00.212000Z", "outcome": "Retried",
                  "responseStatus": 503, "error": ERROR, "retryable": True,
                  "durationMs": 212}]},
            {"ordinal": 1, "type": "Email", "onFailure": "Continue", "status": "Pending",
             "attempts": 0, "failures": 0, "nextAttemptAt": None, "responseStatus": None,
             "error": None, "retryable": None, "completedAt": None, "durationMs": None,
             "haltedBy": None, "outputs": {}, "compensation": None, "undo": None,
             "droppedAttempts": 0, "history": []}],
    }  # fmt: skip


async def test_the_newest_twenty_attempts_are_shown_and_the_rest_is_counted(
    conn, admin, workflow_id
):
    run_id = await add_run(conn, workflow_id)
    for position in range(4, 27):
        await add_attempt(conn, run_id, position, outcome="Lost")

    action = (await get(admin, run_id))["actions"][0]

    assert [one["attempt"] for one in action["history"]] == list(range(7, 27))
    assert action["droppedAttempts"] == 6


async def test_an_undo_has_its_own_life_and_a_missing_one_is_named(conn, admin):
    undoable = ActionDefinition(
        type="Webhook", compensate=Compensate(type="Request", parameters={"Request": "back"})
    )
    definition = replace(WEBHOOKS, actions=(undoable, WEBHOOKS.actions[0]))
    workflow_id = await add_workflow(conn, definition)
    undone = Action(
        status=Status.SUCCEEDED, attempts=1, completed_at=EPOCH,
        undo=Action(attempts=2, failures=2, next_attempt_at=RETRY_AT, error="Again."),
    )  # fmt: skip
    lasting = Action(status=Status.SUCCEEDED, undo=Action(status=Status.NOT_DECLARED))
    run_id = await add_run(
        conn, workflow_id, undone, lasting, definition=definition,
        compensation=Compensation.COMPENSATING, abandoned_at=EPOCH, outputs={0: {"id": "7"}},
    )  # fmt: skip
    await add_attempt(conn, run_id, 1, outcome="Succeeded")
    await add_attempt(conn, run_id, 2, undo=True, number=2)

    shown = await get(admin, run_id)

    first, second = shown["actions"]
    assert shown["status"] == "Running"
    assert shown["compensation"] == "Compensating"
    assert shown["waiting"]["ordinal"] == 0
    assert first["outputs"] == {"id": "7"}
    assert first["compensation"] == "Pending"
    assert [one["outcome"] for one in first["history"]] == ["Succeeded"]
    assert first["undo"].pop("history")[0]["attempt"] == 2
    assert first["undo"] == {
        "type": "Request", "attempts": 2, "failures": 2,
        "nextAttemptAt": "2126-11-30T08:00:00.000000Z", "responseStatus": None, "error": "Again.",
        "retryable": None, "completedAt": None, "durationMs": None, "droppedAttempts": 1,
    }  # fmt: skip
    assert (second["compensation"], second["undo"]) == ("NotDeclared", None)


@pytest.mark.parametrize(
    ("workers", "waiting"),
    [
        ([], {"reason": "NoWorker", "ordinal": 0, "actionType": "Webhook"}),
        (
            [{"types": ["Email"]}, {"types": ["Webhook"], "silent_for": 16}],
            {"reason": "NoWorker", "ordinal": 0, "actionType": "Webhook"},
        ),
        ([{"types": ["Webhook"], "claims": False}], {"reason": "Paused", "ordinal": 0}),
        ([{"types": ["Webhook"]}], {"reason": "Due", "ordinal": 0}),
    ],
)
async def test_a_due_run_says_what_it_waits_for(conn, admin, workflow_id, workers, waiting):
    run_id = await add_run(conn, workflow_id)
    for worker in workers:
        await add_worker(conn, *worker.pop("types"), **worker)

    assert (await get(admin, run_id))["waiting"] == waiting


async def test_a_run_nobody_serves_says_when_that_ends(conn, admin, workflow_id):
    run_id = await add_run(conn, workflow_id, no_worker_since=EPOCH)

    waiting = (await get(admin, run_id))["waiting"]

    assert waiting["until"] == "2020-11-30T08:10:00.000000Z"


async def test_a_run_in_flight_waits_for_its_lease_and_does_not_show_who_holds_it(
    conn, admin, workflow_id
):
    until = EPOCH + timedelta(seconds=15)
    running = Action(status=Status.RUNNING, attempts=1, started_at=EPOCH)
    run_id = await add_run(conn, workflow_id, running, Action(), lease_until=until)

    shown = await get(admin, run_id)

    assert shown["status"] == "Running"
    assert shown["waiting"] == {
        "reason": "LeaseHeld",
        "until": "2020-11-30T08:00:15.000000Z",
        "ordinal": 0,
    }
    assert not {"leaseToken", "leaseWorker", "version", "event"} & shown.keys()


async def test_a_finished_run_waits_for_nothing(conn, admin, workflow_id):
    done = Action(status=Status.SUCCEEDED, completed_at=EPOCH)
    who = {"kind": "User", "id": "u1", "name": "Ada", "email": "ada@example.org"}
    run_id = await add_run(conn, workflow_id, done, done, started_by=Jsonb(who), trigger="Manual")

    shown = await get(admin, run_id)

    assert (shown["status"], shown["waiting"]) == ("Succeeded", None)
    assert shown["startedBy"] == {"kind": "User", "id": "u1", "name": "Ada"}


async def test_a_run_of_another_tenant_does_not_exist(conn, call, workflow_id):
    run_id = await add_run(conn, workflow_id)
    other = await call("Admin", "acme")

    answers = [
        await other.get(f"/api/workflow-runs/{run_id}"),
        await other.get(f"/api/workflow-runs/{uuid.uuid4()}"),
    ]

    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (404, "run-not-found"),
        (404, "run-not-found"),
    ]


async def test_an_id_that_is_none_is_refused(admin):
    answer = await admin.get("/api/workflow-runs/17")

    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"name": "id", "reason": A_UUID}]
