"""Entries that actions write: once, whatever becomes of the attempt, and in turn."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from fix_queue import WANTED, age, jobs_that_differ
from fix_races import opened
from fix_runs import until_blocked

from procession.actions.base import Action, Failed, Succeeded
from procession.actions.conditional import Conditional
from procession.actions.create_task import CreateTask
from procession.actions.update_field import UpdateField
from procession.engine.change import Change, Key, changed
from procession.engine.workflow import ActionDefinition
from procession.queue.acting import LOST, UNSTORABLE, Entries
from procession.queue.claim import claim
from procession.queue.pool import make_pool
from procession.queue.types import Claimed, Recorded, Rescued
from procession.tasks.attempt import acting_of
from procession.testing import Script


def update(value="Two", **parameters):
    return ActionDefinition(
        type="UpdateField", parameters={"Field": "title", "Value": value, **parameters}
    )


ARTICLE = Key("default", "article", "a1")
TASK = ActionDefinition(type="CreateTask", parameters={"Title": "Check it", "Data.due": "soon"})
FIRED = """
    insert into workflow_trigger (tenant, content_type, event, workflow_id)
    select 'default', 'article', 'Updated', id from workflow
"""


@pytest.fixture
def worked(worked):
    worked.more |= {
        "UpdateField": UpdateField(),
        "CreateTask": CreateTask(),
        "Conditional": Conditional(),
    }
    return worked


@pytest.fixture
async def task(conn):
    await conn.execute(
        """insert into content_type (tenant, name, definition) values ('default', 'Task',
           '{"fields": {"due": {}}, "lifecycle": {"statuses": ["Open", "Draft"]}}')"""
    )


async def rows(conn, statement):
    return await (await conn.execute(statement)).fetchall()


async def titles(conn):
    return await rows(conn, "select data ->> 'title', version from entry where id = 'a1'")


async def held(conn, made):
    """A run of the workflow that this test holds the lease of."""
    await made.queue()
    (taken,) = await claim(conn, replace(WANTED, types=(made.definition.actions[0].type,)), 1)
    return taken


def entries_of(pool, taken, depth=10):
    return Entries(pool, acting_of(taken, depth))


def titled(title):
    """Decides on the entry with this title."""
    return lambda made, entry: changed(entry, ARTICLE, Change(data={"title": title}), made)


async def test_an_update_is_written_with_its_marker_and_fires_runs_one_deeper(conn, make, worked):
    made = await make(update())
    (run_id,) = await made.queue()
    listening = await make("Plain")
    await conn.execute(FIRED + " where id = %s", (listening.id,))

    async with worked.working():
        await worked.heard.wait(Recorded, 2)

    assert await titles(conn) == [("Two", 2)]
    assert await rows(conn, "select run_id, key from marker") == [(run_id, f"{run_id.hex}-0")]
    assert await rows(conn, "select trigger, depth, status from run order by depth") == [
        ("Created", 0, "Succeeded"),
        ("Updated", 1, "Succeeded"),
    ]
    assert await jobs_that_differ(conn) == []


async def test_a_workflow_that_fires_itself_comes_to_an_end(conn, make, worked):
    made = await make(update("{{data.title}}+"))
    await conn.execute(FIRED)
    await made.queue()

    async with worked.working(max_depth=2):
        await worked.heard.wait(Recorded, 3)

    assert await titles(conn) == [("One+++", 4)]
    assert await rows(conn, "select depth from run order by depth") == [(0,), (1,), (2,)]
    ((metadata,),) = await rows(
        conn, "select metadata from audit where action = 'workflow.depth.exceeded'"
    )
    assert (metadata["depth"], metadata["event"]) == (3, "Updated")


@pytest.mark.usefixtures("task")
async def test_a_task_is_made_of_what_the_workflow_says(conn, make, worked):
    made = await make(TASK)
    (run_id,) = await made.queue()

    async with worked.working():
        await worked.heard.wait(Recorded)

    key = f"{run_id.hex}-0"
    assert await rows(conn, "select id, status, data from entry where content_type = 'Task'") == [
        (
            f"task-{key}",
            "Draft",
            {
                "Title": "Check it",
                "due": "soon",
                "SourceEntryId": "a1",
                "SourceContentType": "article",
            },
        )
    ]
    assert await rows(conn, "select key from marker") == [(key,)]


@pytest.mark.usefixtures("task")
async def test_a_task_that_was_deleted_is_not_made_again(conn, pool, make):
    taken = await held(conn, await make(TASK))
    key, decided = Key("default", "Task", "t1"), []

    def decide(made, entry):
        decided.append(entry)
        return changed(entry, key, Change(data={}), made)

    entries = entries_of(pool, taken)
    assert await entries.once("k", "Task", "t1", decide) == Succeeded()
    await conn.execute("delete from entry where id = 't1'")
    assert await entries.once("k", "Task", "t1", decide) == Succeeded()

    assert decided == [None]
    assert await rows(conn, "select from entry where id = 't1'") == []


class Slow(Action):
    """Writes, and then is told nothing for a while."""

    repeatable = True

    def __init__(self):
        self.gate, self.written = asyncio.Event(), asyncio.Event()
        self.outcomes = []

    async def perform(self, context, parameters):
        done = await UpdateField().perform(context, {"Field": "title", "Value": "Two"})
        self.outcomes.append(done)
        self.written.set()
        await self.gate.wait()
        return done


async def test_an_attempt_that_is_lost_after_its_write_is_not_written_again(conn, make, worked):
    worked.more["Slow"] = Slow()
    await (await make("Slow")).queue()
    async with worked.working():
        await worked.more["Slow"].written.wait()
        await age(conn, lease_until=16)
        await worked.heard.wait(Rescued, 1, seconds=20)
        await worked.heard.wait(Claimed, 2, seconds=20)
        worked.more["Slow"].gate.set()
        await worked.heard.wait(Recorded, 1, seconds=20)

    assert worked.more["Slow"].outcomes == [Succeeded(), Succeeded()]
    assert await titles(conn) == [("Two", 2)]
    assert await rows(conn, "select outcome from attempt order by position") == [
        ("Lost",),
        ("Succeeded",),
    ]


async def nothing_written(conn, runs=1):
    assert await titles(conn) == [("One", 1)]
    assert await rows(conn, "select from marker") == []
    assert len(await rows(conn, "select from run")) == runs


@pytest.mark.parametrize(
    "ended",
    [
        "update run set lease_until = clock_timestamp() - interval '1 ms'",
        "update run set lease_token = lease_token + 1",
        "delete from run",
    ],
)
async def test_an_attempt_whose_lease_is_gone_writes_nothing(conn, pool, make, ended):
    made = await make("Safe")
    taken = await held(conn, made)
    await conn.execute(FIRED)
    await conn.execute(ended)

    outcome = await entries_of(pool, taken).once("k", "article", "a1", titled("Two"))

    assert outcome == Failed(LOST, retryable=True)
    await nothing_written(conn, runs=0 if ended == "delete from run" else 1)


async def test_a_lease_that_lapses_while_the_run_is_waited_for_writes_nothing(
    conn, database, pool, make
):
    taken = await held(conn, await make("Safe"))
    async with opened(database, 1) as (other,):
        async with other.transaction():
            await other.execute("select from run for no key update")
            writing = asyncio.create_task(
                entries_of(pool, taken).once("k", "article", "a1", titled("Two"))
            )
            await until_blocked(conn)
            await other.execute("update run set lease_until = clock_timestamp() - interval '1 ms'")
        assert await writing == Failed(LOST, retryable=True)
    await nothing_written(conn)


async def test_what_postgres_cannot_keep_is_a_permanent_failure(conn, pool, make):
    taken = await held(conn, await make("Safe"))

    outcome = await entries_of(pool, taken).once("k", "article", "a1", titled("a\0b"))

    assert outcome == Failed(UNSTORABLE)
    await nothing_written(conn)


async def test_a_refusal_leaves_no_marker(conn, pool, make):
    taken = await held(conn, await make("Safe"))
    entries = entries_of(pool, taken)

    assert await entries.once("k", "article", "a1", lambda *_: Failed("no")) == Failed("no")
    assert await entries.once("k", "gone", "a1", lambda *_: Failed("no type")) == Failed("no type")
    await nothing_written(conn)


async def blocked(conn, count):
    """Wait until so many sessions wait for a lock."""
    async with asyncio.timeout(10):
        while True:
            cursor = await conn.execute(
                """select from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'"""
            )
            if cursor.rowcount == count:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("statement_timeout", [30, 1])
async def test_actions_that_write_one_entry_take_turns_and_spend_no_attempt(
    conn, database, make, worked, statement_timeout
):
    await (await make(update("{{id}} {{updatedAt}}"))).queue(3)
    short = replace(database, statement_timeout=statement_timeout)
    async with (
        opened(database, 1) as (other,),
        make_pool(short) as pool,
        worked.working(pool, concurrency=3),
    ):
        async with other.transaction():
            await other.execute("select from entry for no key update")
            await blocked(conn, 3)
            # no run is held meanwhile, so that leases are renewed and commands go on
            await other.execute("select from run for no key update nowait")
            if statement_timeout == 1:
                await other.execute("set local statement_timeout = 0; select pg_sleep(1.3)")
        await worked.heard.wait(Recorded, 3)

    assert await rows(conn, "select distinct status from run") == [("Succeeded",)]
    assert await rows(conn, "select distinct number, outcome from attempt") == [(1, "Succeeded")]
    assert len(await rows(conn, "select from marker")) == 3
    assert await jobs_that_differ(conn) == []


async def test_a_branch_that_may_be_repeated_is_known_to_be_once_it_is_claimed(conn, make, worked):
    branch = '[{"type": "Safe", "parameters": {}}]'
    if_so = ActionDefinition(
        type="Conditional",
        parameters={"Condition": "{{status}} == draft", "ThenActions": branch},
    )
    await (await make(if_so)).queue()
    worked.safe.gate.clear()
    async with worked.working(grace=timedelta(seconds=0.1)) as ours:
        await worked.safe.begun.wait()
        assert await rows(conn, "select actions -> 0 -> 'repeatable' from run") == [(True,)]
        ours.stop.set()
        await ours.task

    assert await rows(conn, "select outcome from attempt") == [("Released",)]
    assert await rows(conn, "select status from run") == [("Pending",)]
    assert [one.idempotency_key[-5:] for one in worked.safe.seen] == ["-0-t0"]


@pytest.mark.usefixtures("task")
async def test_children_write_under_keys_of_their_own(conn, make, worked):
    branch = (
        '[{"type": "UpdateField", "parameters": {"Field": "title", "Value": "x"}},'
        ' {"type": "CreateTask", "parameters": {"Title": "y"}}]'
    )
    if_not = ActionDefinition(
        type="Conditional",
        parameters={
            "Condition": "{{status}} != draft",
            "ThenActions": "[]",
            "ElseActions": branch,
        },
    )
    (run_id,) = await (await make(if_not)).queue()
    async with worked.working():
        await worked.heard.wait(Recorded)

    keys = [f"{run_id.hex}-0-e0", f"{run_id.hex}-0-e1"]
    assert await rows(conn, "select key from marker order by key") == [(one,) for one in keys]
    assert await rows(conn, "select id from entry where content_type = 'Task'") == [
        (f"task-{keys[1]}",)
    ]


@pytest.mark.usefixtures("task")
async def test_a_branch_is_gone_on_with_where_a_worker_was_lost_after_its_write(conn, make, worked):
    branch = (
        '[{"type": "UpdateField", "parameters": {"Field": "title", "Value": "Two"}},'
        ' {"type": "Safe", "parameters": {}}]'
    )
    parameters = {
        "Condition": "{{data.title}} == One",
        "ThenActions": branch,
        "ElseActions": '[{"type": "CreateTask", "parameters": {"Title": "Never meant"}}]',
    }
    if_so = ActionDefinition(type="Conditional", parameters=parameters)
    await (await make(if_so)).queue()
    worked.safe.gate.clear()
    async with worked.working():
        await worked.safe.begun.wait()
        await age(conn, lease_until=16)
        await worked.heard.wait(Claimed, 2, seconds=20)
        worked.safe.gate.set()
        await worked.heard.wait(Recorded, 1, seconds=20)

    assert await rows(conn, "select outcome from attempt order by position") == [
        ("Lost",),
        ("Succeeded",),
    ]
    assert [one.idempotency_key[-5:] for one in worked.safe.seen] == ["-0-t1", "-0-t1"]
    assert await rows(conn, "select from entry where content_type = 'Task'") == []


async def test_what_children_wrote_is_told_of_the_very_action_and_waited_for(
    conn, database, pool, make
):
    taken = await held(conn, await make("Safe"))
    run = taken.id.hex
    for key in ("1", "1-undo", "11-t0", "1-e1-t0", "1-e0"):
        await conn.execute(
            "insert into marker (tenant, run_id, key) values ('default', %s, %s)",
            (taken.id, f"{run}-{key}"),
        )
    async with make_pool(replace(database, lock_timeout=1)) as ours:
        entries = entries_of(ours, taken)
        async with opened(database, 1) as (other,), other.transaction():
            await other.execute("lock table marker in access exclusive mode")
            told = asyncio.create_task(entries.written(f"{run}-1"))
            await until_blocked(conn)
        found = await told

    assert [one.removeprefix(run) for one in found] == ["-1-undo", "-1-e1-t0", "-1-e0"]
    assert await entries_of(pool, taken).written(f"{run}-0") == []


async def test_markers_go_with_their_run(conn, pool, make):
    taken = await held(conn, await make("Safe"))
    assert isinstance(taken.id, UUID)
    await entries_of(pool, taken).once("k", "article", "a1", titled("Two"))

    await conn.execute("delete from run")

    assert await rows(conn, "select from marker") == []


FAR = """
    insert into content_type (tenant, name, definition) values
        ('default', 'Author', '{"fields": {"Name": {}, "Mail": {"sensitivity": "Sensitive"}}}');
    insert into entry (tenant, content_type, id, status, sensitivity, data, created_by, updated_by)
    select 'default', 'Author', new.id, 'Draft', new.sensitivity, new.data, created_by, updated_by
    from entry, (values ('w1', 'Public', '{"Name": "Ann", "Mail": "m", "Stray": 1}'::jsonb),
                        ('w2', 'Hidden', '{"Name": "Bob"}')) as new (id, sensitivity, data);
    update content_type set definition = '{"fields": {"title": {}, "by": {"type": "reference"}}}'
    where name = 'article';
    update entry set data = data || '{"by": [{"contentType": "Author", "id": "w1"},
        {"contentType": "Author", "id": "w2"}, {"contentType": "Author", "id": "w3"}]}'
    where id = 'a1'
"""


async def test_templates_read_what_is_public_of_other_entries_and_link_to_the_console(
    conn, make, worked
):
    worked.more["Seen"] = script = Script()
    text = "{{#each data.by}}{{item.id}}:{{item.Name}}{{item.Mail}}{{item.Stray}} {{/each}}"
    parameters = {"Text": text, "Link": "{{links.run}} {{links.entry}}"}
    made = await make(ActionDefinition(type="Seen", parameters=parameters))
    await conn.execute(FAR)
    (run_id,) = await made.queue()

    async with worked.working(console_url="https://console.example/"):
        await worked.heard.wait(Recorded)

    assert script.parameters_seen == [
        {
            "Text": "w1:Ann w2: w3: ",
            "Link": f"https://console.example/runs/{run_id}"
            " https://console.example/entries/article/a1",
        }
    ]
