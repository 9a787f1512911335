"""Runs that are asked for by hand: what is queued, every refusal, and requests said again."""

import uuid

import pytest
from fix_api import CONTROL, add_workflow, declare

KEY = "Idempotency-Key"


@pytest.fixture
async def flow(conn, admin):
    """A workflow that names articles, one of which there is."""
    await declare(admin)
    await declare(admin, "Page", {})
    await save(admin, "Article/a-17", {"Title": "One", "Language": "en"})
    return await add_workflow(conn, "Published", conditions={"Language": "en"})


async def save(client, path, data, **more):
    answer = await client.put(f"/api/entries/{path}", json={"data": data, **more})
    assert answer.status_code in {200, 201}, answer.text


async def ask(client, workflow_id, body=None, key=None, **more):
    headers = {} if key is None else {KEY: key}
    sent = {"entryId": "a-17"} if body is None else body
    return await client.post(
        f"/api/workflows/{workflow_id}/run", json=sent, headers={**headers, **more}
    )


async def count(conn, table):
    cursor = await conn.execute(f"select count(*) from {table}")
    return (await cursor.fetchone())[0]


async def notes(conn):
    cursor = await conn.execute(
        "select target_type, target_id, metadata, actor ->> 'name' from audit"
        " where action = 'workflow.run.manual' order by at"
    )
    return await cursor.fetchall()


async def test_a_run_is_queued_with_its_job_and_says_who_started_it(conn, call, flow):
    operator = await call("Operator")

    answer = await ask(operator, flow, **{"X-Correlation-ID": "req-9"})

    run_id = answer.json()["runId"]
    assert (answer.status_code, answer.json()) == (202, {"runId": run_id})
    run = (await operator.get(f"/api/workflow-runs/{run_id}")).json()
    assert (run["trigger"], run["status"], run["depth"]) == ("Manual", "Pending", 0)
    assert (run["entryId"], run["contentType"]) == ("a-17", "Article")
    assert (run["workflowId"], run["workflowVersion"]) == (flow, 1)
    assert (run["startedBy"]["kind"], run["startedBy"]["name"]) == ("ApiKey", "key of Operator")
    assert run["correlationId"] == "req-9"
    assert run["waiting"] == {"reason": "NoWorker", "ordinal": 0, "actionType": "Webhook"}
    assert await count(conn, "procrastinate_jobs") == 1
    about = {"workflow": flow, "runId": run_id, "entryId": "a-17", "contentType": "Article"}
    assert await notes(conn) == [("WorkflowRun", run_id, about, "key of Operator")]


async def test_without_a_key_each_request_makes_a_run(conn, admin, flow):
    first, second = await ask(admin, flow), await ask(admin, flow)

    assert first.json()["runId"] != second.json()["runId"]
    assert (await count(conn, "run"), len(await notes(conn))) == (2, 2)


async def test_a_repeat_answers_the_same_run_whatever_has_become_of_the_workflow(conn, admin, flow):
    first = await ask(admin, flow, key="order-17")
    path = f"/api/workflows/{flow}"
    made = first.json()["runId"]
    changes = [
        lambda: admin.put(f"{path}/enabled", json={"enabled": False}),
        lambda: save(admin, "Article/a-17", {"Language": "fr"}),
        lambda: save(admin, "Page/a-17", {}),
        lambda: admin.delete("/api/entries/Article/a-17"),
        lambda: admin.delete(path),
        lambda: admin.delete("/api/content-types/Article"),
    ]

    answers = []
    for change in changes:
        await change()
        answers += [
            await ask(admin, flow, key="order-17"),
            await ask(admin, flow, {"entryId": "a-17", "contentType": "Article"}, "order-17"),
        ]

    assert first.status_code == 202
    assert {(one.status_code, one.text) for one in answers} == {
        (200, f'{{"runId":"{made}","repeated":true}}')
    }
    assert (await count(conn, "run"), len(await notes(conn))) == (1, 1)


async def test_a_run_that_was_removed_is_made_anew_under_its_id(conn, admin, flow):
    first = await ask(admin, flow, key="k")
    await conn.execute("delete from procrastinate_jobs")
    await conn.execute("delete from run")

    again = await ask(admin, flow, key="k")

    assert (again.status_code, again.json()) == (202, first.json())


async def test_another_workflow_entry_content_type_caller_key_or_tenant_is_another_run(
    conn, admin, call, control, flow
):
    other = await add_workflow(conn, "Published", content_types=("Article", "Page"))
    await save(admin, "Article/b-1", {"Language": "en"})
    await save(admin, "Page/a-17", {})
    acme = await call("Admin", "acme")
    await declare(acme)
    await save(acme, "Article/a-17", {})
    theirs = await add_workflow(conn, "Published", tenant="acme")
    ann = {"X-Tenant": "default", "X-Actor-Id": "ann"}

    answers = [
        await ask(admin, flow, key="k"),
        await ask(admin, flow, key="K"),
        await ask(admin, flow, {"entryId": "b-1"}, "k"),
        await ask(admin, other, {"entryId": "a-17", "contentType": "Article"}, "k"),
        await ask(admin, other, {"entryId": "a-17", "contentType": "Page"}, "k"),
        await ask(await call("Admin"), flow, key="k"),
        await ask(acme, theirs, key="k"),
        await ask(control, flow, key="k", **ann),
        await ask(control, flow, key="k", **(ann | {"X-Actor-Id": "bob"})),
    ]

    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["runId"] for one in answers}) == len(answers)
    assert CONTROL not in "".join(str(one) for one in await notes(conn))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, ["entryId"]),
        ([], ["body"]),
        ({"entryId": 17}, ["entryId"]),
        ({"entryId": "a/17"}, ["entryId"]),
        ({"entryId": "a-17", "contentType": "1"}, ["contentType"]),
        ({"entryId": "a-17", "contentType": ["Article"]}, ["contentType"]),
    ],
)
async def test_a_body_that_means_nothing_is_refused_by_name(conn, admin, flow, body, names):
    answer = await ask(admin, flow, body, key="k" * 201)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == [*names, KEY]
    assert await count(conn, "run") == 0


@pytest.mark.parametrize("key", ["", "k" * 201, "k\u00e9", "a\tb"])
async def test_a_bad_key_is_refused(conn, admin, flow, key):
    answer = await ask(admin, flow, key=key.encode("latin-1"))

    assert (answer.status_code, answer.json()["errors"]) == (
        400,
        [{"name": KEY, "reason": "must be one text of 1 to 200 printable ASCII characters"}],
    )
    assert await count(conn, "run") == 0
    assert (await ask(admin, flow, key="k" * 200)).status_code == 202


async def test_two_keys_in_one_request_are_refused(admin, flow):
    answer = await admin.post(
        f"/api/workflows/{flow}/run",
        json={"entryId": "a-17"},
        headers=[(KEY, "one"), (KEY, "two")],
    )

    assert (answer.status_code, answer.json()["errors"][0]["name"]) == (400, KEY)


async def test_the_refusals_come_in_their_order(conn, admin, call, flow):
    """Each request has the faults of the ones after it, and one more."""
    nobody = await call("Viewer")
    await add_workflow(conn, "Published")
    await admin.put(f"/api/workflows/{flow}/enabled", json={"enabled": False})
    await save(admin, "Page/p-1", {})
    bad, unnamed = {"entryId": "a b"}, {"entryId": "p-1"}

    answers = [
        await ask(nobody, uuid.uuid4(), bad, key=""),
        await ask(admin, "x", bad, key=""),
        await ask(admin, uuid.uuid4(), bad, key=""),
        await ask(admin, flow, bad, key=""),
        await ask(admin, flow, {"entryId": "none"}),
        await ask(admin, flow, unnamed),
        await ask(admin, flow, {"entryId": "p-1", "contentType": "Page"}),
        await ask(admin, flow, {"entryId": "p-1", "contentType": "Article"}),
        await ask(admin, flow),
    ]

    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (403, "forbidden"),
        (400, "validation-failed"),
        (404, "workflow-not-found"),
        (400, "validation-failed"),
        (404, "entry-not-found"),
        (400, "validation-failed"),
        (400, "validation-failed"),
        (404, "entry-not-found"),
        (409, "workflow-disabled"),
    ]
    assert answers[0].json()["capability"] == "run_workflows"
    assert [one.json()["errors"] for one in answers[5:7]] == [
        [{"name": "contentType", "reason": "must be one that the workflow names: Article"}]
    ] * 2
    assert (await count(conn, "run"), await notes(conn)) == (0, [])


async def test_a_deleted_workflow_and_one_of_another_tenant_do_not_exist(admin, call, flow):
    stranger = await call("Admin", "acme")
    await admin.delete(f"/api/workflows/{flow}")

    answers = [await ask(stranger, flow), await ask(admin, flow), await ask(admin, flow, key="k")]

    assert {(one.status_code, one.json()["code"]) for one in answers} == {
        (404, "workflow-not-found")
    }


async def test_the_content_type_is_needed_only_among_several(conn, admin, flow):
    both = await add_workflow(conn, "Published", content_types=("Page", "Article", "Gone"))
    alone = await ask(admin, both)
    await save(admin, "Page/a-17", {})

    several = await ask(admin, both)
    named = await ask(admin, both, {"entryId": "a-17", "contentType": "Page"})
    one_of_flow = await ask(admin, flow)

    assert alone.status_code == 202
    assert (several.status_code, several.json()["errors"]) == (
        400,
        [{
            "name": "contentType",
            "reason": "is required, since several have an entry with this id: Article, Page",
        }],
    )  # fmt: skip
    assert (named.status_code, one_of_flow.status_code) == (202, 202)
    run = (await admin.get(f"/api/workflow-runs/{named.json()['runId']}")).json()
    assert run["contentType"] == "Page"


@pytest.mark.parametrize("sensitivity", ["Sensitive", "Hidden"])
async def test_an_entry_that_the_caller_may_not_read_does_not_exist(admin, call, flow, sensitivity):
    await save(admin, "Article/a-17", {"Language": "en"}, sensitivity=sensitivity)
    await save(admin, "Page/a-17", {})
    operator = await call("Operator")

    answers = [
        await ask(operator, flow, {"entryId": "a-17", "contentType": "Article"}),
        await ask(operator, flow, {"entryId": "a-17", "contentType": "Page"}),
        await ask(operator, flow),
    ]

    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (404, "entry-not-found"),
        (400, "validation-failed"),
        (400, "validation-failed"),
    ]
    assert (await ask(admin, flow)).status_code == 202


async def test_who_may_run_and_not_read_finds_no_entry(admin, call, flow):
    body = {"capabilities": ["run_workflows"]}
    assert (await admin.put("/api/roles/Starter", json=body)).status_code in {200, 201}

    answer = await ask(await call("Starter"), flow)

    assert (answer.status_code, answer.json()["code"]) == (404, "entry-not-found")


async def test_the_first_condition_that_fails_is_named(conn, admin):
    await declare(admin)
    await save(admin, "Article/a-17", {"Language": "en", "Secret": "s"})
    conditions = {"Language": "en", "Status": "Published", "Rank": "1"}
    picky = await add_workflow(conn, "Published", conditions=conditions)
    hidden = await add_workflow(conn, "Published", conditions={"Secret": "s"})

    answer = await ask(admin, picky, key="k")

    assert answer.status_code == 409
    assert answer.json() | {"traceId": ""} == {
        "traceId": "",
        "type": "urn:procession:problem:conditions-not-met",
        "title": "The entry does not meet the conditions",
        "status": 409,
        "detail": "The entry does not meet the condition on Status.",
        "instance": f"/api/workflows/{picky}/run",
        "code": "conditions-not-met",
        "condition": "Status",
    }
    assert await count(conn, "run") == 0
    assert (await ask(admin, hidden)).status_code == 202


async def test_a_refused_key_is_free(admin, flow):
    await admin.put(f"/api/workflows/{flow}/enabled", json={"enabled": False})
    refused = await ask(admin, flow, key="k")
    await admin.put(f"/api/workflows/{flow}/enabled", json={"enabled": True})

    answer = await ask(admin, flow, key="k")

    assert (refused.status_code, answer.status_code) == (409, 202)
