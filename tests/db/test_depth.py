"""Runs that change entries fire runs, and so on: how deep that may go, and what stops it."""

from uuid import UUID

import pytest
from fix_api import ARTICLE, add_workflow

from procession.engine.access import Actor, ActorKind
from procession.engine.change import Key
from procession.engine.content_type import parse_content_type
from procession.engine.precondition import Precondition
from procession.queue import content_types, entries
from procession.queue.audit import By
from procession.queue.start import Cause, Origin

ANN = Actor(kind=ActorKind.API_KEY, id="k", name="Key")
RUN = UUID("5f0c1d2e-8a4b-4c6d-9e0f-112233445566")
KEY = Key("default", "Article", "a-1")
ANYHOW = Precondition()


def of_a_run(depth, most=10):
    """A change that an action makes, of a run of this depth."""
    return Origin(ANN, cause=Cause(RUN, depth, most))


@pytest.fixture(autouse=True)
async def article(conn):
    await content_types.save(conn, "default", "Article", parse_content_type(ARTICLE), By())
    await conn.execute("alter table audit disable trigger audit_is_append_only; delete from audit")
    await conn.execute("alter table audit enable trigger audit_is_append_only")


async def save(conn, origin, **body):
    return await entries.put(conn, KEY, {"data": {}, **body}, ANYHOW, origin)


async def rows(conn, statement):
    return await (await conn.execute(statement)).fetchall()


NOTED = """
    select action, actor, ip, target_type, target_id, metadata from audit order by at
"""


def exceeded(event, depth):
    about = {"contentType": "Article", "event": event, "depth": depth, "runId": str(RUN)}
    return ("workflow.depth.exceeded", None, None, "Entry", "a-1", about)


@pytest.mark.parametrize(
    ("origin", "depth"),
    [(Origin(ANN), 0), (of_a_run(0), 1), (of_a_run(9), 10), (of_a_run(0, 1), 1)],
)
async def test_a_run_is_one_deeper_than_the_run_that_fires_it(conn, origin, depth):
    await add_workflow(conn, "Created")

    saved = await save(conn, origin)

    assert len(saved.fired.run_ids) == 1
    assert await rows(conn, "select depth from run") == [(depth,)]
    assert await rows(conn, NOTED) == []


@pytest.mark.parametrize(("origin", "depth"), [(of_a_run(10), 11), (of_a_run(0, 0), 1)])
async def test_a_change_too_deep_down_stands_and_queues_nothing(conn, origin, depth):
    await add_workflow(conn, "Created")

    saved = await save(conn, origin, data={"Rank": 7})

    assert saved.fired == entries.Fired(("Created",))
    assert await rows(conn, "select id, version, data from entry") == [("a-1", 1, {"Rank": 7})]
    assert await rows(conn, "select from run") == []
    assert await rows(conn, "select from procrastinate_jobs") == []
    assert await rows(conn, NOTED) == [exceeded("Created", depth)]


async def test_each_event_that_would_have_queued_runs_is_noted_once(conn):
    for _ in range(2):
        await add_workflow(conn, "Created", "Published")
    await add_workflow(conn, "Updated")

    await save(conn, of_a_run(10), status="Published")

    assert await rows(conn, NOTED) == [exceeded("Created", 11), exceeded("Published", 11)]


async def test_what_fires_nothing_goes_nowhere_and_is_not_noted(conn):
    await add_workflow(conn, "Updated")
    await add_workflow(conn, "Created", conditions={"Rank": "8"})

    await save(conn, of_a_run(10), data={"Rank": 7})

    assert await rows(conn, NOTED) == []


async def test_a_transition_and_a_delete_are_held_to_it_too(conn):
    await add_workflow(conn, "transition:Approve", "Deleted")
    await save(conn, Origin(ANN), status="Review")

    moved = await entries.move(conn, KEY, "Approve", ANYHOW, of_a_run(10))
    deleted = await entries.delete(conn, KEY, ANYHOW, of_a_run(10))

    assert moved.fired.events == ("Published", "transition:Approve")
    assert deleted == entries.Fired(("Deleted",))
    assert await rows(conn, "select from entry") == []
    assert await rows(conn, NOTED) == [exceeded("transition:Approve", 11), exceeded("Deleted", 11)]
