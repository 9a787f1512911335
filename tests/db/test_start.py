"""Queueing runs: one statement for all of them, each with the one job it calls for."""

from datetime import UTC, datetime
from uuid import UUID

from fix_api import add_workflow

from procession.engine.access import Actor, ActorKind
from procession.engine.entry import MANUAL
from procession.engine.workflow import ActionDefinition, Definition
from procession.queue.start import NewRun, Origin, start

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)
ACTOR = Actor(kind=ActorKind.USER, id="u-1", name="Zoe", email="zoe@example.org")


def new_run(workflow, *types, **parts):
    definition = Definition(
        name="Announce",
        trigger_content_types=("Article",),
        trigger_events=("Created",),
        actions=tuple(ActionDefinition(type=one) for one in types),
    )
    asked = {"trigger": "Created", "event": 0, "origin": Origin(ACTOR), "at": NOW, **parts}
    return NewRun(
        workflow_id=UUID(workflow),
        workflow_version=1,
        definition=definition,
        content_type="Article",
        entry_id="a-1",
        **asked,
    )


async def rows(conn, statement):
    return await (await conn.execute(statement)).fetchall()


async def test_many_runs_are_queued_at_once_in_the_order_given(conn):
    workflow = await add_workflow(conn, "Created")
    runs = [new_run(workflow, "Webhook", "Email", event=n // 2) for n in range(50)]

    queued = await start(conn, "default", runs)

    assert queued == [one.id for one in runs]
    assert await rows(conn, "select count(*), count(distinct event_sequence) from run") == [
        (50, 25)
    ]
    assert await rows(conn, "select count(*), count(distinct lock) from procrastinate_jobs") == [
        (50, 50)
    ]
    assert await start(conn, "default", []) == []


async def test_a_run_that_is_there_already_is_left_as_it_is(conn):
    workflow = await add_workflow(conn, "Created")
    run = new_run(workflow, "Webhook", trigger=MANUAL, event=None, started_by=ACTOR)

    first = await start(conn, "default", [run])
    await conn.execute("delete from procrastinate_jobs")
    second = await start(conn, "default", [run])

    assert (first, second) == ([run.id], [])
    assert await rows(conn, "select trigger, event_sequence, started_by ->> 'id' from run") == [
        ("Manual", 0, "u-1")
    ]
    assert await rows(conn, "select from procrastinate_jobs") == []


async def test_a_run_without_actions_is_finished_when_queued_and_has_no_job(conn):
    workflow = await add_workflow(conn, "Created")

    await start(conn, "default", [new_run(workflow)])

    assert await rows(conn, "select status, completed_at, due_at from run") == [
        ("Succeeded", NOW, None)
    ]
    assert await rows(conn, "select from procrastinate_jobs") == []


async def test_a_run_is_queued_with_the_transaction_of_what_it_answers(conn, pool):
    workflow = await add_workflow(conn, "Created")

    async with pool.connection() as other, other.transaction(force_rollback=True):
        await start(other, "default", [new_run(workflow, "Webhook")])

    assert await rows(conn, "select from run") == []
    assert await rows(conn, "select from procrastinate_jobs") == []
