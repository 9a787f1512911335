"""Runs to claim, and what must be true of them after every step."""

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from procession.actions.base import Action, Succeeded
from procession.actions.registry import Registry
from procession.app.runner import Options, Runner
from procession.engine.run import due, start, status
from procession.engine.workflow import ActionDefinition, Definition
from procession.outbound.http import Client, Rules
from procession.queue.claim import Wanted
from procession.queue.leases import Held, connection
from procession.queue.record import Recorder

WANTED = Wanted(uuid.UUID(int=1), types=("Plain", "Safe"), repeatable=("Safe",))
ACTOR = {"kind": "ApiKey", "id": "abcdefghijkl", "name": "tests"}


def definition(*types, **more):
    """A workflow of actions of these types; a definition among them is taken as it is."""
    actions = tuple(
        one if isinstance(one, ActionDefinition) else ActionDefinition(type=one) for one in types
    )
    return Definition(
        name="Test",
        trigger_content_types=("article",),
        trigger_events=("Created",),
        actions=actions,
        **more,
    )


WORKFLOW = """
    with kept as (
        insert into workflow (tenant, id, name) values (%(tenant)s, %(id)s, 'Test')
    )
    insert into workflow_version (tenant, workflow_id, version, definition)
    values (%(tenant)s, %(id)s, 1, %(definition)s)
"""
QUEUE = """
    with queued as (
        insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                         entry_id, trigger, status, created_at, due_at, due_ordinal, due_undo,
                         due_type, actions)
        select %(tenant)s, id, %(workflow)s, 1, 'Test', 'article', 'a1', 'Created', %(status)s,
               %(created_at)s, %(due_at)s, %(ordinal)s, %(undo)s, %(type)s, %(actions)s
        from unnest(%(ids)s::uuid[]) as id
        returning tenant, id, due_at, due_ordinal
    )
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
    select tenant, 'attempt', 'run:' || id, 'run:' || id,
           jsonb_build_object('run', id, 'ordinal', due_ordinal, 'attempt', 1), due_at
    from queued
"""
DEFAULT = definition("Safe")


class Made:
    """A workflow of a tenant, and the runs that a test queues of it."""

    def __init__(self, conn, tenant, workflow, workflow_id):
        self.conn, self.tenant, self.definition, self.id = conn, tenant, workflow, workflow_id

    async def queue(self, count=1):
        """The ids of so many new runs, which are due in this order."""
        cursor = await self.conn.execute("select clock_timestamp()")
        (now,) = await cursor.fetchone()
        run = start(self.definition, now)
        first = due(run, self.definition, now)
        ids = sorted(uuid.uuid4() for _ in range(count))
        await self.conn.execute(
            QUEUE,
            {
                "tenant": self.tenant,
                "workflow": self.id,
                "ids": ids,
                "status": status(run),
                "created_at": run.created_at,
                "due_at": first.at,
                "ordinal": first.ordinal,
                "undo": first.undo,
                "type": first.type,
                "actions": msgspec.json.encode(run.actions).decode(),
            },
        )
        return ids


@pytest.fixture
def make(conn):
    """Make a workflow: `await make("Safe", tenant="acme")`."""

    async def made(*types, tenant="default", entry=True, **more):
        workflow, workflow_id = definition(*types, **more) if types else DEFAULT, uuid.uuid4()
        await conn.execute(
            "insert into tenant (slug, name) values (%s, %s) on conflict do nothing",
            (tenant, tenant.title()),
        )
        if entry:
            await write_entry(conn, tenant)
        text = msgspec.json.encode(workflow).decode()
        await conn.execute(WORKFLOW, {"tenant": tenant, "id": workflow_id, "definition": text})
        return Made(conn, tenant, workflow, workflow_id)

    return made


async def write_entry(conn, tenant):
    await conn.execute(
        "insert into content_type (tenant, name, definition) values (%s, 'article', %s)"
        " on conflict do nothing",
        (tenant, '{"fields": {"title": {}}, "lifecycle": {"statuses": ["Draft"]}}'),
    )
    await conn.execute(
        "insert into entry (tenant, content_type, id, status, data, created_by, updated_by)"
        " values (%s, 'article', 'a1', 'Draft', '{\"title\": \"One\"}', %s, %s)"
        " on conflict do nothing",
        (tenant, msgspec.json.encode(ACTOR).decode(), msgspec.json.encode(ACTOR).decode()),
    )


# A run in flight has its job doing or, once that was lost, none; an unfinished one that is not in
# flight has one waiting, for when it is due; a finished one has none.
DIFFERENT = """
    select run.id::text, run.status, jobs.doing, jobs.todo
    from run cross join lateral (
        select count(*) filter (where status = 'doing') as doing,
               count(*) filter (where status = 'todo') as todo,
               bool_and(scheduled_at = run.due_at) filter (where status = 'todo') as in_time
        from procrastinate_jobs where lock = 'run:' || run.id) as jobs
    where case when run.lease_token is not null then jobs.doing <> 1 or jobs.todo <> 0
               when run.due_at is not null
                   then jobs.doing <> 0 or jobs.todo <> 1 or not jobs.in_time
               else jobs.doing <> 0 or jobs.todo <> 0 end
    union all
    select lock, 'gone', 1, 0 from procrastinate_jobs
    where task_name = 'attempt' and not exists (select from run where 'run:' || run.id = lock)
"""


async def row(conn, statement, *values):
    """The one row that it gives, or the first."""
    cursor = await conn.execute(statement, values or None)
    return await cursor.fetchone()


async def jobs_that_differ(conn):
    """The runs whose jobs are not what their rows call for: always none."""
    cursor = await conn.execute(DIFFERENT)
    return await cursor.fetchall()


async def age(conn, **seconds):
    """Let time pass for every run: move these columns back by so many seconds."""
    for column, by in seconds.items():
        await conn.execute(f"update run set {column} = {column} - %s * interval '1 s'", (by,))
        if column == "due_at":
            await conn.execute(
                "update procrastinate_jobs set scheduled_at = scheduled_at - %s * interval '1 s'",
                (by,),
            )


class Heard:
    """What was told, for a test that waits for it."""

    def __init__(self):
        self.all, self._news = [], asyncio.Event()

    def __call__(self, happened):
        self.all.append(happened)
        self._news.set()

    def of(self, kind):
        return [one for one in self.all if isinstance(one, kind)]

    async def wait(self, kind, count=1, seconds=10):
        """The first so many of this kind."""
        async with asyncio.timeout(seconds):
            while len(self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return self.of(kind)[:count]


@pytest.fixture
def heard():
    return Heard()


class Scripted(Action):
    """An action that does what the test says: waits for a gate, then gives the next outcome."""

    def __init__(self, *, repeatable=True):
        self.repeatable = repeatable
        self.outcomes, self.seen, self.given = [], [], []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def perform(self, context, parameters):
        self.seen.append(context)
        self.given.append(parameters)
        self.begun.set()
        await self.gate.wait()
        return self.outcomes.pop(0) if self.outcomes else Succeeded()


class Worked:
    """Workers of a test, and what they said."""

    def __init__(self, database, pool, client):
        self._database, self._pool, self._client = database, pool, client
        self.safe, self.plain = Scripted(), Scripted(repeatable=False)
        self.more = {}  # actions by type, beside those two
        self.heard = Heard()

    @contextlib.asynccontextmanager
    async def working(self, pool=None, **options):
        """A worker, for as long as the block lasts; on a pool of its own if one is given."""
        options = Options(database=self._database, **{"grace": timedelta(seconds=5)} | options)
        registry = Registry({"Safe": self.safe, "Plain": self.plain, **self.more})
        runner = Runner(pool or self._pool, options, registry, self._client, tell=self.heard)
        async with running(runner) as ours:
            yield ours


@dataclass
class Ours:
    runner: Runner
    stop: asyncio.Event
    task: asyncio.Task


@contextlib.asynccontextmanager
async def running(runner):
    """A worker for as long as the block lasts; then it is asked to stop, and waited for."""
    stop = asyncio.Event()
    task = asyncio.create_task(runner.run(stop))
    try:
        yield Ours(runner, stop, task)
    finally:
        stop.set()
        await task


@contextlib.asynccontextmanager
async def writing(recorder):
    """Outcomes are written for as long as the block lasts."""
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def held():
    return Held()


@pytest.fixture
async def recorder(pool, held, heard):
    async with writing(Recorder(pool, held, heard)) as one:
        yield one


@pytest.fixture
async def worked(database, pool):
    async with Client(Rules()) as client:
        yield Worked(database, pool, client)


@pytest.fixture
def kept(database):
    """The connection of a keeper."""
    with connection(database) as one:
        yield one
