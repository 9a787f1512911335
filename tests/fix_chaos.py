"""Workers that are killed, stopped past their leases and cut off from the database, and a checker
that reads afterwards what the database says and what a receiver saw."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from uuid import UUID

import psycopg
import pytest
from fix_postgres import EMPTY
from fix_process import KEYS
from fix_queue import Made, jobs_that_differ, write_entry
from fix_receiver import Receiver, answer
from psycopg.conninfo import make_conninfo

from procession.engine.run import Compensation, Status, status
from procession.engine.workflow import ActionDefinition, Compensate, Definition, OnFailure
from procession.queue import workflows
from procession.queue.ids import uuid7
from procession.queue.stored_run import one as stored_one

ACTIONS = Path(__file__).parent / "chaos"
RECORDED = {"Succeeded": {200}, "Retried": {503}, "Failed": {400, 503}}
LAST = {Status.SUCCEEDED: {"Succeeded"}, Status.FAILED: {"Failed"}}
DOUBT = {"Unknown", "Lost", "Released"}
# after which an attempt may go out again
AGAIN = {"Again": {"Retried", "Lost", "Released"}, "Once": {"Retried"}, None: set()}
AT_ONCE = 40  # unfinished runs


@dataclass
class Seen:
    """A request as it came; `answered` is when its answer was given, None if it never was."""

    run: UUID
    ordinal: int
    undo: bool
    attempt: int
    key: str
    worker: int
    status: int
    at: float
    answered: float | None = None

    @property
    def place(self):
        return self.ordinal, self.undo


class Log(Receiver):
    """Answers what the plan in the path says, after a while, and keeps what it saw."""

    def __init__(self, random, repeated):
        super().__init__()
        self.random, self.seen, self.news = random, [], asyncio.Event()
        self._repeated = repeated  # seconds that the answer to what is repeated takes, from and to
        self._times = Counter()

    def _note(self, received):
        _, plan, run, ordinal, attempt, undo = received.path.split("/")
        times = self._times[run, ordinal, undo]
        self._times[run, ordinal, undo] += 1
        statuses = [int(one) for one in plan.split(",")]
        one = Seen(
            run=UUID(run),
            ordinal=int(ordinal),
            undo=bool(undo),
            attempt=int(attempt),
            key=received.headers["idempotency-key"],
            worker=int(received.headers["x-worker"]),
            status=statuses[min(times, len(statuses) - 1)],
            at=monotonic(),
        )
        self.seen.append(one)
        self.news.set()
        self.script.append(self._answering(one))

    def _answering(self, one):
        # what is repeated takes longer, so that whoever was late comes back in the middle of it
        takes = self.random.uniform(*((0.01, 0.15) if one.attempt == 1 else self._repeated))

        async def act(writer):
            await asyncio.sleep(takes)
            one.answered = monotonic()
            await answer(one.status)(writer)

        return act

    async def until(self, what, seconds):
        """Wait until this is true of what was seen, or for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not what():
                    self.news.clear()
                    await self.news.wait()

    async def more(self, count, seconds=5):
        wanted = len(self.seen) + count
        await self.until(lambda: len(self.seen) >= wanted, seconds)

    def by(self, worker):
        """The runs whose requests by this worker are not answered yet."""
        return [x.run for x in self.seen if x.worker == worker.process.pid and not x.answered]

    def goes_on(self, runs, since):
        """Whether one of these runs is at it again, after so many requests."""
        return any(x.run in runs and not x.answered for x in self.seen[since:])


def a_definition(random, url):
    """Two to four actions, some halting, some with an undo, some refused at first or for good."""

    def telling(plans):
        kind = random.choice(["Again", "Again", "Once"])
        return {"type": kind, "parameters": {"Url": url, "Plan": random.choice(plans)}}

    actions = [
        ActionDefinition(
            **telling(["200", "200", "200", "200", "503,200", "400"]),
            on_failure=random.choice(list(OnFailure)),
            compensate=random.choice(
                [None, Compensate(**telling(["200", "200", "503,200", "400"]))]
            ),
        )
        for _ in range(random.randint(2, 4))
    ]
    return Definition(
        name="Chaos",
        trigger_content_types=("article",),
        trigger_events=("Created",),
        actions=tuple(actions),
    )


TOKENS = "select lease_token from run where id = any(%s) and lease_token is not null"
AGE = "update run set lease_until = clock_timestamp() - interval '1 s' where lease_token = any(%s)"
HURRY = """
    with hurried as (
        update run set due_at = clock_timestamp() where due_at > clock_timestamp()
        returning id, due_at
    )
    update procrastinate_jobs set scheduled_at = hurried.due_at
    from hurried where lock = 'run:' || hurried.id
"""
CUT = """
    select pg_terminate_backend(pid) from (
        select pid from pg_stat_activity
        where datname = current_database() and application_name = 'procession' order by pid
    ) as theirs offset %s limit 1
"""


class Chaos:
    """So many runs, worked on by so many workers, while they are harmed."""

    def __init__(self, conn, log, start, random, *, patient):
        self.conn, self.log, self._start, self.random = conn, log, start, random
        self.patient = patient  # a killed worker's leases lapse by themselves
        self.workers, self.ended, self.ids, self.harmed = [], [], [], False
        self.made = []
        self.retried = set()  # by persons: a run, an ordinal and its attempts by then

    async def go(self, *, workers, runs, harms, seconds):
        """Whether all of it ended in time. The harms are names of methods, in their order."""
        self.made = [await self._workflow() for _ in range(20)]
        for _ in range(workers):
            await self._begin()
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                group.create_task(self._feed(runs))
                group.create_task(self._harm(harms))
        except TimeoutError:
            return False
        return True

    async def _workflow(self):
        definition = a_definition(self.random, self.log.url(""))
        workflow_id = uuid7()
        await workflows.insert(self.conn, "default", workflow_id, definition, enabled=True)
        return Made(self.conn, "default", definition, workflow_id)

    async def _begin(self):
        self.workers.append(await self._start())

    async def _feed(self, runs):
        """Keep runs open until there were enough of them and no more harm comes, and end them."""
        while True:
            cursor = await self.conn.execute("select from run where completed_at is null")
            if len(self.ids) < runs or not self.harmed:
                for _ in range(AT_ONCE - cursor.rowcount):
                    self.ids += await self.random.choice(self.made).queue()
            elif not cursor.rowcount:
                return
            await self.conn.execute(HURRY)
            for worker in [one for one in self.workers if one.process.returncode is not None]:
                self.workers.remove(worker)
                self.ended.append(worker)
                await self._begin()
            await self.log.more(10, seconds=0.3)

    async def _harm(self, harms):
        for harm in harms:
            await self.log.more(self.random.randint(3, 12))
            await getattr(self, harm)()
        self.harmed = True

    async def _lapse(self, runs, *, patient):
        """The leases of these runs, which have lapsed or soon will."""
        cursor = await self.conn.execute(TOKENS, (runs,))
        tokens = [token for (token,) in await cursor.fetchall()]
        if not patient:
            await self.conn.execute(AGE, (tokens,))
        return tokens

    async def kill(self):
        """A worker vanishes, and another is started."""
        worker = self.random.choice(self.workers)
        self.workers.remove(worker)
        runs = self.log.by(worker)
        await worker.kill()
        await self._lapse(runs, patient=self.patient)
        await self._begin()

    async def stop(self, *, patient=False):
        """A worker is stopped past its leases, and goes on while others repeat what it did."""
        worker = self.random.choice(self.workers)
        await self.log.until(lambda: self.log.by(worker), 10)
        send(worker, signal.SIGSTOP)
        runs, since = self.log.by(worker), len(self.log.seen)
        await self._rescued(await self._lapse(runs, patient=patient))
        await self.log.until(lambda: self.log.goes_on(runs, since), 5)
        send(worker, signal.SIGCONT)

    async def outlast(self):
        """The same, until the leases have lapsed by themselves."""
        await self.stop(patient=True)

    async def _rescued(self, tokens):
        held = "select from run where lease_token = any(%s)"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                while (await self.conn.execute(held, (tokens,))).rowcount:
                    await self.log.more(1, seconds=0.1)

    async def cut(self):
        """A session of some worker is ended."""
        await self.conn.execute(CUT, (self.random.randrange(6),))


def send(worker, number):
    with contextlib.suppress(ProcessLookupError):  # an unguarded one may have ended
        worker.send(number)


async def complaints(conn, chaos):
    """What is wrong with what is left: nothing, ever."""
    found = [f"a worker ended: {worker.said[-1:]}" for worker in chaos.ended]
    found += [f"jobs differ: {row}" for row in await jobs_that_differ(conn)]
    seen = defaultdict(list)
    for request in chaos.log.seen:
        seen[request.run].append(request)
    for run_id in chaos.ids:
        stored = await stored_one(conn, "default", run_id)
        retried = {(n, number) for run, n, number in chaos.retried if run == run_id}
        found += [f"{run_id}: {said}" for said in of_run(stored, seen[run_id], retried)]
    return found


def of_run(stored, seen, retried):
    """What is wrong with a run."""
    told = {(x.ordinal, x.undo, x.number): x for x in stored.history if x.outcome != "Discarded"}
    if stored.completed_at is None:
        yield f"has not ended: {stored.status}"
    if stored.status is not status(stored.run):
        yield f"reads {stored.status} for {status(stored.run)}"
    by_place = defaultdict(list)
    for request in seen:
        by_place[request.place].append(request)
    for ordinal, action in enumerate(stored.actions):
        for undo, life in ((False, action), (True, action.undo)):
            here = by_place.pop((ordinal, undo), [])
            if life is None:
                if here:
                    yield f"the undo of {ordinal} was performed, and is none of the run's"
                continue
            entries = {n: x for (o, u, n), x in told.items() if (o, u) == (ordinal, undo)}
            key = f"{stored.id.hex}-{ordinal}{'-undo' if undo else ''}"
            again = {number for n, number in retried if n == ordinal and not undo}
            for said in of_life(key, life, kind(stored, ordinal, undo), entries, here, again):
                yield f"{'undo of ' if undo else ''}{ordinal} ({life.status}): {said}"
    recorded = [x for x in seen if told.get((*x.place, x.attempt), none).outcome in RECORDED]
    yield from of_order(stored, sorted(recorded, key=lambda one: one.at))
    yield from of_rollback(stored)


def kind(stored, ordinal, undo):
    action = stored.definition.actions[ordinal]
    return action.type if not undo else action.compensate and action.compensate.type


class none:  # noqa: N801 - an entry that is not there
    outcome = None


def of_life(key, life, kind, entries, seen, retried):  # noqa: PLR0913, PLR0917
    """What is wrong with an action, or an undo, by what was told of its attempts and seen of it."""
    if sorted(entries) != list(range(1, life.attempts + 1)):
        yield f"has {life.attempts} attempts, and entries of {sorted(entries)}"
    if {x.key for x in seen} - {key}:
        yield "went out under another key"
    numbers = [x.attempt for x in seen]
    if len(set(numbers)) < len(numbers) or set(numbers) - set(entries):
        yield f"went out as attempts {numbers} of {life.attempts}"
    for number, after in itertools.pairwise(sorted(numbers)):
        if retried.isdisjoint(range(number, after)) and (
            entries.get(number, none).outcome not in AGAIN[kind]
        ):
            yield f"attempt {number} is {entries.get(number, none).outcome}, and it went out again"
    yield from of_outcomes(life, entries, {x.attempt: x for x in seen})


def of_outcomes(life, entries, requests):
    """What is wrong with what is said of its attempts."""
    for number, entry in entries.items():
        request = requests.get(number)
        answered = request is not None and request.answered is not None
        if entry.outcome not in RECORDED:
            continue
        if not answered and entry.response_status is not None:
            yield f"attempt {number} is {entry.outcome} and was not answered"
        elif answered and request.status not in RECORDED[entry.outcome]:
            yield f"attempt {number} is {entry.outcome} and was answered {request.status}"
    last = entries.get(life.attempts, none).outcome
    if last not in LAST.get(life.status, {last}):
        yield f"its last attempt is {last}"
    out = {entry.outcome for entry in entries.values()} - {"Retried", "Failed"}
    if life.status is Status.UNKNOWN and not out & DOUBT:
        yield f"and yet no attempt of it is in doubt: {out}"
    unbegun = {n for n, entry in entries.items() if entry.outcome == "Released"} - requests.keys()
    begun = {entry.outcome for n, entry in entries.items() if n not in unbegun} & out
    if life.status in {Status.CANCELLED, Status.SKIPPED, Status.NOT_DECLARED} and begun:
        yield f"and yet attempts of it are {begun}"


def of_order(stored, recorded):
    """What is wrong with the order of the attempts that were recorded, as they came."""
    for one, other in itertools.pairwise(recorded):
        if one.answered is None or other.at < one.answered:
            yield f"{one.place} and {other.place} were performed at once"
        if one.undo and (not other.undo or other.ordinal > one.ordinal):
            yield f"{other.place} was performed after the undo of {one.ordinal}"
    firsts = list(dict.fromkeys(x.ordinal for x in recorded if not x.undo))
    if firsts != sorted(firsts):
        yield f"its actions began in the order {firsts}"
    for ordinal, action in enumerate(stored.definition.actions):
        if action.on_failure is not OnFailure.HALT:
            continue
        later = [x for x in recorded if not x.undo and x.ordinal > ordinal]
        before = [x for x in recorded if x.place == (ordinal, False) and x.status == 200]
        if later and not (before and before[0].at < later[0].at):
            yield f"{later[0].ordinal} was performed, though {ordinal} had not succeeded"


def of_rollback(stored):
    """What is wrong with the rollback, which an abandon starts, or a halt if something had
    succeeded by then; but not in a run that was cancelled."""
    succeeded = [x for x in stored.actions if x.status is Status.SUCCEEDED]
    undone = all(x.undo is not None and x.undo.status is Status.SUCCEEDED for x in succeeded)
    halts = [
        x.completed_at
        for x, declared in zip(stored.actions, stored.definition.actions, strict=True)
        if x.status is Status.FAILED and declared.on_failure is OnFailure.HALT
    ]
    declares = any(x.compensate is not None for x in stored.definition.actions)
    calls_for = None
    halted = declares and any(x.completed_at < at for x in succeeded for at in halts)
    if stored.cancelled_at is not None and stored.compensation is None:
        return
    if halted or stored.abandoned_at is not None:
        calls_for = Compensation.COMPENSATED if undone else Compensation.INCOMPLETE
    if stored.compensation != calls_for:
        yield f"its rollback is {stored.compensation} and should be {calls_for}"
    for ordinal, action in enumerate(stored.actions):
        if action.undo is not None and action.status is not Status.SUCCEEDED:
            yield f"{ordinal} has an undo and has not succeeded"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


@pytest.fixture
async def chaos(database, command, tmp_path):
    """Make a chaos: `await chaos(seed, guarded=False)`."""
    with psycopg.connect(database.conninfo, autocommit=True) as conn:
        conn.execute(EMPTY)
    apart = make_conninfo(database.conninfo, application_name="chaos")
    async with contextlib.AsyncExitStack() as stack:
        conn = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(apart, autocommit=True)
        )

        async def made(seed, *, guarded=True, patient=False):
            random = Random(seed)
            log = await Log(random, (0.3, 0.7) if guarded else (2, 3)).start()
            stack.push_async_callback(log.stop)
            await write_entry(conn, "default")
            types = ["Again", "Once", *([] if guarded else ["Unguarded"])]
            folder = tmp_path / "procession_chaos-0.dist-info"
            folder.mkdir()
            lines = ["[procession.actions]", *(f"{x} = procession_chaos:{x}" for x in types)]
            (folder / "entry_points.txt").write_text("\n".join(lines))

            async def start():
                return await command(
                    "procession",
                    "worker",
                    PYTHONPATH=os.pathsep.join([str(tmp_path), str(ACTIONS)]),
                    DATABASE_URL=database.url,
                    SECRETS__KEYS=KEYS,
                    HOST="127.0.0.1",
                    PORT=free_port(),
                    OUTBOUND__ALLOWED_NETWORKS="127.0.0.0/8",
                    WORKFLOWS__OUTBOUND__RETRIES=0,
                    WORKFLOWS__OUTBOUND__BREAKER_FAILURES=0,
                    WORKFLOWS__RUNNER_CONCURRENCY=5,
                )

            return Chaos(conn, log, start, random, patient=patient)

        yield made
