"""How changes of entries become runs."""

import pytest
from fix_api import add_workflow, declare
from psycopg.rows import dict_row

FIRST = "/api/entries/Article/a-1"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def runs_of(conn, ids):
    """Trigger and workflow of each run, in the order of the ids."""
    cursor = await conn.execute("select id::text, trigger, workflow_id::text from run")
    found = {row[0]: row[1:] for row in await cursor.fetchall()}
    return [found[one] for one in ids]


async def put(client, data=None, **parts):
    answer = await client.put(FIRST, json={"data": data or {}, **parts})
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


async def test_a_run_is_queued_with_its_first_job(admin, conn):
    await declare(admin)
    workflow = await add_workflow(conn, "Created", name="Announce")

    answer = await admin.put(
        FIRST, json={"data": {}}, headers={"X-Correlation-ID": "req-9", "traceparent": TRACE}
    )

    (run_id,) = answer.json()["runIds"]
    cursor = conn.cursor(row_factory=dict_row)
    await cursor.execute("""
        select id::text, workflow_id::text, workflow_version, workflow_name, content_type,
               entry_id, trigger, status, depth, started_by, executor, correlation_id, traceparent,
               actions, due_ordinal, due_undo, due_type, lease_token, version,
               created_at = due_at as at_once,
               event -> 'actor' ->> 'kind' as actor, event ->> 'transition' as transition
        from run
    """)
    assert await cursor.fetchall() == [
        {
            "id": run_id,
            "workflow_id": workflow,
            "workflow_version": 1,
            "workflow_name": "Announce",
            "content_type": "Article",
            "entry_id": "a-1",
            "trigger": "Created",
            "status": "Pending",
            "depth": 0,
            "started_by": None,
            "executor": None,
            "correlation_id": "req-9",
            "traceparent": TRACE,
            "actions": [{}],
            "due_ordinal": 0,
            "due_undo": False,
            "due_type": "Webhook",
            "lease_token": None,
            "at_once": True,
            "actor": "ApiKey",
            "transition": None,
            "version": 1,
        }
    ]
    cursor = await conn.execute("""
        select queue_name, task_name, lock, queueing_lock, job.status, args, scheduled_at = due_at
        from procrastinate_jobs as job, run
    """)
    name = f"run:{run_id}"
    assert await cursor.fetchall() == [
        (
            "default",
            "attempt",
            name,
            name,
            "todo",
            {"run": run_id, "ordinal": 0, "attempt": 1},
            True,
        )
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Correlation-ID", "x" * 129),
        ("X-Correlation-ID", "ü".encode()),
        ("traceparent", TRACE.upper()),
        ("traceparent", TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32)),
        ("traceparent", "ff" + TRACE[2:]),
        ("traceparent", TRACE + "-x"),
    ],
)
async def test_a_trace_of_the_wrong_form_is_left_aside(admin, conn, name, value):
    await declare(admin)
    await add_workflow(conn, "Created")

    await admin.put(FIRST, json={"data": {}}, headers={name: value})

    cursor = await conn.execute("select correlation_id, traceparent from run")
    assert await cursor.fetchall() == [(None, None)]


async def test_each_event_fires_what_names_it_in_the_order_of_the_table(admin, conn):
    await declare(admin)
    events = ["Created", "Updated", "Published", "Unpublished", "Deleted", "transition:Approve"]
    for event in events:
        await add_workflow(conn, event)

    async def fired(saved):
        assert saved["events"] == [one[0] for one in await runs_of(conn, saved["runIds"])]
        return saved["events"]

    assert await fired(await put(admin)) == ["Created"]
    assert await fired(await put(admin, {"Rank": 1})) == ["Updated"]
    assert await fired(await put(admin, {"Rank": 2}, status="Published")) == [
        "Updated",
        "Published",
    ]
    assert await fired(await put(admin, {"Rank": 2}, status="Archived")) == ["Unpublished"]
    await put(admin, {"Rank": 2}, status="Review")
    approved = (await admin.post(f"{FIRST}/transitions/approve")).json()
    assert await fired(approved) == ["Published", "transition:Approve"]
    assert await fired((await admin.delete(FIRST)).json()) == ["Deleted"]
    assert await fired(await put(admin, status="Published")) == ["Created", "Published"]


async def test_a_transition_is_told_to_the_run_that_it_fires(admin, conn):
    await declare(admin)
    await add_workflow(conn, "transition:Approve", "Published")
    await put(admin, status="Review")

    await admin.post(f"{FIRST}/transitions/Approve")

    cursor = await conn.execute("select trigger, event ->> 'transition' from run order by trigger")
    assert await cursor.fetchall() == [("Published", None), ("transition:Approve", "Approve")]


async def test_one_event_makes_one_run_of_each_workflow_in_the_order_of_their_ids(admin, conn):
    await declare(admin)
    workflows = sorted([await add_workflow(conn, "Created", "Published") for _ in range(3)])

    saved = await put(admin, status="Published")

    assert await runs_of(conn, saved["runIds"]) == [
        (event, workflow) for event in ("Created", "Published") for workflow in workflows
    ]
    cursor = await conn.execute(
        "select trigger, count(*), count(distinct event_sequence) from run group by 1 order by 1"
    )
    assert await cursor.fetchall() == [("Created", 3, 1), ("Published", 3, 1)]
    cursor = await conn.execute("select count(distinct event_sequence) from run")
    assert await cursor.fetchone() == (2,)


async def test_only_what_matches_fires(admin, conn, call):
    await declare(admin)
    await call("Admin", "acme")
    await add_workflow(conn, "Created", content_types=("Page",))
    await add_workflow(conn, "Updated")
    await add_workflow(conn, "Created", tenant="acme")
    await add_workflow(conn, "transition:Gone")
    off, gone = await add_workflow(conn, "Created"), await add_workflow(conn, "Created")
    await conn.execute("update workflow set enabled = false where id = %s", (off,))
    await conn.execute("update workflow set deleted_at = now() where id = %s", (gone,))

    assert (await put(admin))["runIds"] == []


@pytest.mark.parametrize(
    ("conditions", "fires"),
    [
        ({}, True),
        ({"Status": "Published"}, True),
        ({"Status": "published"}, False),
        ({"Language": "en", "Rank": "1.5", "Live": "true"}, True),
        ({"Language": "en", "Rank": "2"}, False),
        ({"Language": "EN"}, False),
        ({"Title": ""}, True),
        ({"Nope": ""}, False),
        ({"Secret": "s"}, True),
        ({"Undeclared": "u"}, True),
        ({"Extra": "[]"}, False),
    ],
)
async def test_conditions_are_read_from_the_entry_as_written(admin, conn, conditions, fires):
    await declare(admin)
    await add_workflow(conn, "Created", conditions=conditions)
    data = {
        "Language": "en",
        "Rank": 1.5,
        "Live": True,
        "Title": None,
        "Secret": "s",
        "Undeclared": "u",
        "Extra": [],
    }

    saved = await put(admin, data, status="Published")

    assert len(saved["runIds"]) == int(fires)


async def test_a_workflow_with_conditions_never_fires_for_a_deleted_entry(admin, conn):
    await declare(admin)
    plain = await add_workflow(conn, "Deleted")
    await add_workflow(conn, "Deleted", conditions={"Language": "en"})
    await put(admin, {"Language": "en"})

    deleted = (await admin.delete(FIRST)).json()

    assert await runs_of(conn, deleted["runIds"]) == [("Deleted", plain)]


async def test_a_save_that_cannot_queue_stores_nothing(admin, conn):
    await declare(admin)
    await add_workflow(conn, "Created", "Updated", "Deleted")
    await put(admin, {"Rank": 1})
    admin._transport.raise_app_exceptions = False  # noqa: SLF001 - a defect is what is made here
    await conn.execute("""
        create function refuse() returns trigger language plpgsql as
        $$ begin raise exception 'no jobs today'; end $$;
        create trigger refuse before insert on procrastinate_jobs
            for each row execute function refuse();
    """)
    try:
        answers = [
            await admin.put(FIRST, json={"data": {"Rank": 2}}),
            await admin.put("/api/entries/Article/a-2", json={"data": {}}),
            await admin.delete(FIRST),
        ]
    finally:
        await conn.execute("drop trigger refuse on procrastinate_jobs; drop function refuse")

    assert [one.status_code for one in answers] == [500] * 3
    cursor = await conn.execute("select id, version, data from entry")
    assert await cursor.fetchall() == [("a-1", 1, {"Rank": 1})]
    cursor = await conn.execute("select count(*) from run")
    assert await cursor.fetchone() == (1,)


async def test_a_refused_write_fires_nothing(admin, conn):
    await declare(admin)
    await add_workflow(conn, "Created", "Updated", "Deleted", "transition:Approve")
    await put(admin)

    await admin.put(FIRST, json={"data": {"Rank": "x"}})
    await admin.put(FIRST, json={"data": {"Rank": 1}}, headers={"If-Match": '"5"'})
    await admin.delete(FIRST, headers={"If-Match": '"5"'})
    await admin.post(f"{FIRST}/transitions/Approve")

    cursor = await conn.execute("select trigger from run")
    assert await cursor.fetchall() == [("Created",)]


async def test_the_person_behind_a_control_caller_is_kept_for_templates(control, conn):
    headers = {
        "X-Tenant": "default",
        "X-Actor-Id": "u-7",
        "X-Actor-Name": "Zoe",
        "X-Actor-Email": "zoe@example.org",
    }
    control.headers.update(headers)
    await declare(control)
    await add_workflow(conn, "Created")

    saved = await put(control)

    assert saved["entry"]["createdBy"] == {"kind": "Control", "id": "u-7", "name": "Zoe"}
    kept = await conn.execute(
        "select created_by ->> 'email', event -> 'actor' ->> 'email' from entry, run"
    )
    assert await kept.fetchall() == [("zoe@example.org", "zoe@example.org")]
