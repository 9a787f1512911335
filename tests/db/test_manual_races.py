"""One request for a run, said several times at once, and against changes of its workflow."""

import asyncio
from collections import Counter

import pytest
from fix_races import BY, rounds, wish
from fix_runs import until_blocked

from procession.engine.errors import ConflictError, NotFoundError
from procession.queue import manual, workflow_changes
from procession.queue.workflow_changes import Draft

ACROSS = 8


@pytest.fixture
async def made(make):
    return await make("Safe")


def asking(made, **more):
    async def ask(session):
        try:
            return await manual.run(session, wish(made, **more))
        except NotFoundError as refused:
            return refused.code

    return ask


async def noted(conn):
    cursor = await conn.execute("select count(*) from audit where action = 'workflow.run.manual'")
    return (await cursor.fetchone())[0]


@rounds
async def test_one_request_said_many_times_at_once_makes_one_run(conn, made, race, rounds):
    async def once():
        before = await noted(conn)
        sides = [asking(made, content_type=name) for name in [None, "article"] * (ACROSS // 2)]

        answers = await race.between(*sides)

        assert Counter(one.is_repeat for one in answers) == {False: 1, True: ACROSS - 1}
        assert len({one.run_id for one in answers}) == 1
        assert await noted(conn) == before + 1
        return "one"

    await race.goes(rounds, once, "one")


@rounds
async def test_requests_without_a_key_are_as_many_runs(made, race, rounds):
    async def once():
        answers = await race.between(*[asking(made, key=None)] * ACROSS)

        assert len({one.run_id for one in answers}) == ACROSS
        assert not any(one.is_repeat for one in answers)
        return "all"

    await race.goes(rounds, once, "all")


@rounds
async def test_a_repeat_is_one_though_the_workflow_is_switched_off_at_once(
    conn, made, race, rounds
):
    """Whoever is refused comes wholly before or after: never beside a run of the same request."""

    async def once():
        await workflow_changes.switch(conn, "default", made.id, BY, lambda: True)

        *answers, _ = await race.between(
            *[asking(made)] * (ACROSS - 1),
            lambda mine: workflow_changes.switch(mine, "default", made.id, BY, lambda: False),
        )

        started = [one for one in answers if one != "workflow-disabled"]
        cursor = await conn.execute("select count(*) from run")
        assert (await cursor.fetchone())[0] == bool(started)
        assert not started or len([one for one in started if not one.is_repeat]) == 1
        later = await race.between(asking(made))
        assert (later[0] == "workflow-disabled") is not bool(started)
        return "refused" if len(started) < len(answers) else "started"

    await race.goes(rounds, once, "refused", "started")


async def test_a_request_against_a_delete_is_refused_or_cancelled(conn, make, race):
    for _ in range(10):
        made = await make("Safe")

        answer, _ = await race.between(
            asking(made),
            lambda mine, gone=made: workflow_changes.delete(mine, "default", gone.id, BY),
        )

        cursor = await conn.execute("select status from run where workflow_id = %s", (made.id,))
        left = await cursor.fetchall()
        assert left == ([] if answer == "workflow-not-found" else [("Cancelled",)])


async def test_a_request_against_a_save_runs_one_version_or_the_other(conn, make, race):
    for _ in range(10):
        made = await make("Safe")
        other = make_two(made)

        answer, _ = await race.between(
            asking(made),
            lambda mine, to=made, as_=other: workflow_changes.update(
                mine, "default", to.id, BY, lambda _: Draft(as_, enabled=True)
            ),
        )

        cursor = await conn.execute(
            "select workflow_version, jsonb_array_length(actions) from run where id = %s",
            (answer.run_id,),
        )
        assert await cursor.fetchone() in {(1, 1), (2, 2)}


def make_two(made):
    """Its definition with the action twice."""
    return type(made.definition)(
        name="Two",
        trigger_content_types=made.definition.trigger_content_types,
        trigger_events=made.definition.trigger_events,
        actions=made.definition.actions * 2,
    )


async def test_a_repeat_is_found_by_whoever_is_refused_meanwhile(conn, pool, made):
    """The first request is committed, and the workflow goes off, once the second has looked."""
    async with asyncio.TaskGroup() as group, pool.connection() as session:
        async with conn.transaction():
            first = await manual.run(conn, wish(made))
            await workflow_changes.switch(conn, "default", made.id, BY, lambda: False)
            second = group.create_task(manual.run(session, wish(made)))
            async with pool.connection() as watching:
                await until_blocked(watching)
        again = await second

    assert (again.run_id, again.is_repeat) == (first.run_id, True)
    with pytest.raises(ConflictError):
        await manual.run(conn, wish(made, "other"))
