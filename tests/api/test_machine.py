"""Runs through any order of claims, outcomes, losses and commands, over the API and the database,
beside a model on paper; after each step all that must be true of them is."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import httpx2
import msgspec
import psycopg
import pytest
from fix_api import add_key, declare
from fix_postgres import EMPTY
from fix_queue import WANTED, jobs_that_differ
from fix_races import recording, sound
from fix_run_model import Model
from fix_runs import encoded
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.api.shapes import wire_time
from procession.engine.document import at, put
from procession.engine.outcome import Failed, Skipped, Succeeded, Unknown
from procession.engine.run import Status, due
from procession.engine.workflow import ActionDefinition, Compensate, Definition, OnFailure
from procession.queue import workflows
from procession.queue.claim import claim
from procession.queue.ids import uuid7
from procession.queue.leases import connection, renew
from procession.queue.mend import Place, mend
from procession.queue.pool import make_pool
from procession.queue.record import Ended
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.stored_run import one

OUTCOMES = {
    "S": Succeeded(),
    "F": Failed("503", retryable=True),
    "f": Failed("400"),
    "U": Unknown("cut"),
    "K": Skipped("gone"),
}
HOUR = timedelta(hours=1)  # of a second on paper, and a lease: so that a slow machine ends none


ALONE = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


class World:
    """The application in process and its database, which a machine calls from outside the loop."""

    def __init__(self, database):
        self._database = database

    def __enter__(self):
        self._begin()
        return self

    def __exit__(self, *_):
        self._end()

    def _begin(self):
        self._runner, self._stack = asyncio.Runner(), contextlib.AsyncExitStack()
        self.do(self._open())

    def _end(self):
        with self._runner:
            self.do(self._close(self._doing))

    def do(self, doing):
        loop = self._runner.get_loop()
        self._doing = loop.create_task(doing)
        return loop.run_until_complete(self._doing)

    async def _open(self):
        enter = self._stack.enter_async_context
        self.kept = self._stack.enter_context(connection(self._database))
        self.pool = await enter(make_pool(self._database))
        self.conn = await enter(self.pool.connection())
        catalogue = load(built_in(), []).catalogue()
        app = create_app(Services(pool=self.pool, control_tokens=(), catalogue=catalogue))
        transport = httpx2.ASGITransport(app=app)
        self.client = await enter(
            httpx2.AsyncClient(transport=transport, base_url="http://procession")
        )

    async def _close(self, last):
        last.cancel()  # a step that a time-out cut off goes on otherwise
        await asyncio.wait({last})
        await self._stack.aclose()

    def begin_anew(self):
        """From nothing, whatever an example that was cut off has left open."""
        self._end()
        with psycopg.connect(self._database.conninfo, autocommit=True) as conn:
            conn.execute(ALONE)
            conn.execute(EMPTY)
        self._begin()
        self.do(self._declare())

    async def _declare(self):
        self.client.headers["Authorization"] = f"Bearer {await add_key(self.conn)}"
        await declare(self.client)

    def call(self, method, path, **more):
        return self.do(self.client.request(method, f"/api{path}", **more))

    async def record(self, taken, ended):
        async with recording(self.pool) as recorder, asyncio.timeout(10):
            return await recorder.record(taken, ended)

    async def release(self, taken, *, started):
        async with recording(self.pool) as recorder, asyncio.timeout(10):
            return await recorder.release(taken, started=started)

    async def define(self, workflow_id, definition):
        await workflows.insert(self.conn, "default", workflow_id, definition, enabled=True)

    async def rows(self, statement):
        return await (await self.conn.execute(statement)).fetchall()

    async def execute(self, statement, *parameters):
        return await self.conn.execute(statement, parameters)


@dataclass
class Tracked:
    """A run, what the model says of it, and the lease that is held of it."""

    id: UUID
    model: Model
    token: int | None = None
    live: bool = False
    attempts: dict = field(default_factory=dict)
    checked: list | None = None


def a_definition(chain, kinds):
    """The chain's actions, of kinds that may be repeated or not; an undo is of the other kind."""
    return Definition(
        name="Chain",
        trigger_content_types=("Article",),
        trigger_events=("Created", "Updated"),
        actions=tuple(
            ActionDefinition(
                type=kind,
                on_failure=OnFailure.HALT if word[0] == "H" else OnFailure.CONTINUE,
                compensate=Compensate(type=OTHER[kind]) if word.endswith("u") else None,
            )
            for word, kind in zip(chain, kinds, strict=False)
        ),
    )


OTHER = {"Safe": "Plain", "Plain": "Safe"}
some_runs = precondition(lambda self: self.runs)
some_due = precondition(lambda self: any(map(self.is_due, self.runs)))
some_claims = precondition(lambda self: self.claims)
letters = st.sampled_from("SSSFFFfUK")
numbers = st.integers(0, 11)


class RunsMachine(RuleBasedStateMachine):
    world: World

    @initialize(
        chain=st.lists(st.sampled_from(["H", "C", "Hu", "Cu"]), min_size=1, max_size=4),
        kinds=st.lists(st.sampled_from(["Safe", "Safe", "Plain"]), min_size=4, max_size=4),
    )
    def begin(self, chain, kinds):
        self.chain, self.kinds = chain, kinds
        self.runs, self.claims = [], []
        self.now = self.saves = self.noted = 0
        self.workflow = "enabled"
        self.world.begin_anew()
        self.workflow_id = uuid7()
        self.world.do(self.world.define(self.workflow_id, a_definition(chain, kinds)))
        self.queue()

    @precondition(lambda self: len(self.runs) < 5)
    @rule()
    def queue(self):
        self.saves += 1
        body = {"status": "Draft", "data": {"Rank": self.saves}}
        saved = self.world.call("PUT", "/entries/Article/a-1", json=body)
        assert saved.status_code in {200, 201}
        ids = saved.json()["runIds"]
        assert len(ids) == (self.workflow == "enabled")
        self.runs += [Tracked(UUID(one), Model(self.chain)) for one in ids]

    @precondition(lambda self: any(run.model.next(self.now) for run in self.runs))
    @rule(seconds=st.sampled_from([1, 15, 100]))
    def wait(self, seconds):
        """Time passes, and nobody writes. What is in flight goes on, its lease kept."""
        self.now += seconds
        for run in self.runs:
            self.world.do(self.move_back(run, seconds * HOUR))

    async def move_back(self, run, by):
        found = await one(self.world.conn, "default", run.id)
        await self.world.execute(
            "update run set version = version + 1, actions = %s, created_at = created_at - %s,"
            " updated_at = updated_at - %s, due_at = due_at - %s where id = %s",
            *(encoded([_moved_back(action, by) for action in found.actions]), by, by, by, run.id),
        )
        await self.world.execute(
            "update procrastinate_jobs set scheduled_at = scheduled_at - %s where lock = %s",
            *(by, f"run:{run.id}"),
        )

    async def wait_as_on_paper(self, run, ordinal, undo, seconds):
        """Let what was just recorded wait for so long, and decide anew on what is due."""
        found = await one(self.world.conn, "default", run.id)
        (now,) = await (await self.world.execute("select clock_timestamp()")).fetchone()
        waits = replace(at(found.run, ordinal, undo=undo), next_attempt_at=now + seconds * HOUR)
        changed = put(found.run, ordinal, waits, undo=undo)
        first = due(changed, found.definition, now)
        await self.world.execute(
            "update run set version = version + 1, updated_at = %s, actions = %s,"
            " due_at = %s, due_ordinal = %s, due_undo = %s, due_type = %s where id = %s",
            *(now, encoded(changed.actions)),
            *(first.at, first.ordinal, first.undo, first.type, run.id),
        )
        await self.world.execute(
            "update procrastinate_jobs set scheduled_at = %s where lock = %s",
            *(first.at, f"run:{run.id}"),
        )

    def is_due(self, run):
        found = run.model.next(self.now)
        return found is not None and found[0] == 0

    @some_due
    @rule(slots=st.integers(1, 3))
    def claim(self, slots):
        self.take(slots)

    @some_due
    @rule(letters=st.lists(letters, min_size=1, max_size=3))
    def work(self, letters):
        self.perform(letters)

    @some_due
    @rule(letters=st.lists(st.sampled_from("SSSSf"), min_size=1, max_size=4))
    def work_on(self, letters):
        self.perform(letters)

    def perform(self, letters):
        for (run, taken), letter in zip(self.take(len(letters)), letters, strict=False):
            self.end(run, taken, letter)

    @some_due
    @rule(letter=letters, late=st.booleans())
    def lose(self, letter, late):
        """Claim, lapse, rescue and, it may be, an outcome after all."""
        for run, taken in self.take(1):
            self.end_lease(run)
            self.rescue_all()
            if late:
                self.end(run, taken, letter)

    def take(self, slots):
        waiting = {run.id: run for run in self.runs if self.is_due(run)}
        claims = self.world.do(claim(self.world.conn, WANTED, slots))
        able = len(waiting) if self.workflow == "enabled" else 0
        assert len(claims) == min(slots, able)
        for taken in claims:
            run = waiting.pop(taken.id)
            assert run.model.next(self.now) == (0, taken.ordinal, taken.undo)
            assert not run.model.cancelled
            kind = self.kinds[taken.ordinal]
            kind = OTHER[kind] if taken.undo else kind
            assert taken.type == kind
            run.model.claim(taken.ordinal, taken.undo, kind == "Safe")
            run.token, run.live = taken.token, True
            self.claims.append((run, taken))
        new = self.claims[len(self.claims) - len(claims) :]
        later = (
            "update run set lease_until = lease_until + interval '1 h' where lease_token = any(%s)"
        )
        self.world.do(self.world.execute(later, [taken.token for taken in claims]))
        return new

    def holds(self, run, taken):
        return run.model.flying is not None and run.live and run.token == taken.token

    @some_claims
    @rule(number=numbers, letter=letters)
    def record(self, number, letter):
        """An outcome of whatever was ever claimed: it counts under its own live lease."""
        self.end(*self.claims[-1 - number % len(self.claims)], letter)

    def end(self, run, taken, letter):
        step = self.world.do(self.world.record(taken, Ended(OUTCOMES[letter], 1)))
        assert (step is not None) == self.holds(run, taken)
        if step is not None:
            life, *place = run.model.flying
            run.model.outcome(letter.upper(), letter == "F", self.now)
            if life.until > self.now:
                self.world.do(self.wait_as_on_paper(run, *place, life.until - self.now))

    @some_claims
    @rule(number=numbers, started=st.booleans())
    def release(self, number, started):
        run, taken = self.claims[-1 - number % len(self.claims)]
        step = self.world.do(self.world.release(taken, started=started))
        assert (step is not None) == self.holds(run, taken)
        if step is not None:
            run.model.release(started)

    @some_claims
    @rule(number=numbers)
    def lapse(self, number):
        run, _ = self.claims[-1 - number % len(self.claims)]
        if run.model.flying:
            self.end_lease(run)

    def end_lease(self, run):
        ago = "update run set lease_until = clock_timestamp() - interval '1 s' where id = %s"
        self.world.do(self.world.execute(ago, run.id))
        run.live = False

    @some_runs
    @rule()
    def keep(self):
        """All that a keeper does in a round."""
        self.renew_all()
        self.rescue_all()
        self.stop_all()
        mend(self.world.kept, Place())

    def renew_all(self):
        leases = "select id, lease_until from run order by id"
        before = self.world.do(self.world.rows(leases))
        stale = [one for run, one in self.claims if not self.holds(run, one)]
        assert renew(self.world.kept, stale).gone == {one.token for one in stale}
        assert self.world.do(self.world.rows(leases)) == before  # of nobody else's
        lost = renew(self.world.kept, [taken for _, taken in self.claims]).gone
        assert lost == {one.token for run, one in self.claims if not self.holds(run, one)}
        later = (
            "update run set lease_until = lease_until + interval '1 h' where lease_until > now()"
        )
        self.world.do(self.world.execute(later))

    def rescue_all(self):
        lapsed = [run for run in self.runs if run.model.flying and not run.live]
        found = rescue(self.world.kept)
        assert {one.run_id for one in found} == {run.id for run in lapsed}
        for run in lapsed:
            run.model.lapse()

    def stop_all(self):
        off = self.workflow == "disabled"
        reached = [run for run in self.runs if off and self.is_due(run)]
        found = stop_switched_off(self.world.kept)
        assert {one.run_id for one in found} == {run.id for run in reached}
        for run in reached:
            run.model.cancel(end_flying=False)

    @rule(enabled=st.sampled_from([True, True, False]))
    def switch(self, enabled):
        path = f"/workflows/{self.workflow_id}/enabled"
        answer = self.world.call("PUT", path, json={"enabled": enabled})
        if self.workflow == "deleted":
            assert (answer.status_code, answer.json()["code"]) == (404, "workflow-not-found")
            return
        assert answer.status_code == 200
        before, self.workflow = self.workflow, "enabled" if enabled else "disabled"
        self.noted += before != self.workflow

    @precondition(lambda self: len(self.claims) > 4)
    @rule()
    def delete(self):
        answer = self.world.call("DELETE", f"/workflows/{self.workflow_id}")
        if self.workflow == "deleted":
            assert (answer.status_code, answer.json()["code"]) == (404, "workflow-not-found")
            return
        assert answer.status_code == 204
        self.workflow, self.noted = "deleted", self.noted + 1
        for run in self.runs:
            if run.model.is_open:
                run.model.cancel(end_flying=not run.live)

    def command(self, run, what, refusal):
        """The answer to a command: what it changes is noted, and what it refuses unchanged."""
        before = self.world.call("GET", f"/workflow-runs/{run.id}").json()
        answer = self.world.call("POST", f"/workflow-runs/{run.id}/{what}")
        after = self.world.call("GET", f"/workflow-runs/{run.id}").json()
        self.noted += before["updatedAt"] != after["updatedAt"]
        if refusal is not None:
            assert (answer.status_code, answer.json()["code"]) == (409, refusal)
            assert after == before
            return False
        assert answer.status_code == 200
        assert answer.json() == after
        return True

    @some_runs
    @rule(number=numbers, what=st.sampled_from(["cancel", "force-end", "abandon", "abandon"]))
    def operate(self, number, what):
        run = self.runs[number % len(self.runs)]
        model, finished = run.model, None if run.model.is_open else "run-finished"
        if what == "abandon":
            if self.command(run, what, model.abandon_refusal(self.workflow)):
                model.roll_back()
        elif self.command(run, what, finished):
            model.cancel(end_flying=what == "force-end" or not run.live)
            assert what == "cancel" or model.status == "Cancelled"

    @some_runs
    @rule(number=numbers, ordinal=st.integers(0, 3))
    def retry(self, number, ordinal):
        run, n = self.runs[number % len(self.runs)], ordinal % len(self.chain)
        refusal = run.model.retry_refusal(n, run.live, self.workflow)
        life = run.model.lives[n]
        due_already = life.letter == "P" and life.until <= self.now
        if self.command(run, f"actions/{n}/retry", refusal) and not due_already:
            run.model.retry(n)

    @invariant()
    def the_jobs_are_what_the_runs_call_for(self):
        assert self.world.do(jobs_that_differ(self.world.conn)) == []

    @invariant()
    def each_run_is_as_the_model_says(self):
        """So are its row, what the engine makes of that, and what the API shows of it."""
        rows = "select id, version, lease_until > clock_timestamp() from run"
        for run_id, *row in self.world.do(self.world.rows(rows)):
            (run,) = [one for one in self.runs if one.id == run_id]
            now = [*row, run.live, repr(run.model)]
            if now != run.checked:
                found = self.world.do(sound(self.world.conn, run.id))
                self.compare(run, found)
                self.compare_shown(run, found)
            run.checked = now

    def compare(self, run, found):
        model = run.model
        assert found.status == model.status
        assert found.compensation == model.compensation
        assert (found.cancelled_at is not None) == model.cancelled
        assert found.leased == (model.flying is not None and run.live)
        assert [_letter(action) for action in found.actions] == list(model.letters)
        undos = {n: x.undo for n, x in enumerate(found.actions) if x.undo is not None}
        assert undos.keys() == model.undos.keys()
        lives = [*zip(found.actions, model.lives, strict=True)]
        lives += [(undos[n], model.undos[n]) for n in undos]
        for place, (action, life) in enumerate(lives):
            assert (_letter(action), action.attempts, action.failures, action.lost) == (
                (life.letter, life.attempts, life.failures, life.lost)
            )
            assert action.attempts >= run.attempts.get(place, 0)
            run.attempts[place] = action.attempts
        flying = [action for action, _ in lives if action.status is Status.RUNNING]
        assert len(flying) == (found.lease_until is not None)

    @invariant()
    def what_is_cancelled_never_went_out(self):
        for run in self.runs:
            for life in (*run.model.lives, *run.model.undos.values()):
                assert life.letter != "C" or set(life.tale) <= {"F", "K"}

    @invariant()
    def what_changed_a_run_is_noted(self):
        told = "select from audit where action ~ '^workflow[.]'"
        assert self.world.do(self.world.execute(told)).rowcount == self.noted

    def compare_shown(self, run, found):
        answer = self.world.call("GET", f"/workflow-runs/{run.id}")
        assert answer.status_code == 200
        shown = answer.json()
        assert (shown["status"], shown["compensation"]) == (found.status, found.compensation)
        for name in ("completed_at", "cancelled_at", "abandoned_at", "updated_at"):
            assert shown[_camel(name)] == _wire(getattr(found, name))
        assert (shown["waiting"] is None) == (found.completed_at is not None)
        if run.model.flying:
            _, ordinal, _ = run.model.flying
            until = _wire(found.lease_until)
            said = {"reason": "LeaseHeld", "until": until, "ordinal": ordinal}
            assert shown["waiting"] == said
        elif run.model.is_open:
            until, ordinal, _ = run.model.next(self.now)
            told = (shown["waiting"]["reason"], shown["waiting"]["ordinal"])
            assert told == ("RetryAt" if until else "NoWorker", ordinal)
        for n, (action, view) in enumerate(zip(found.actions, shown["actions"], strict=True)):
            _same(action, view)
            assert view["compensation"] == (action.undo.status if action.undo else None)
            assert (view["undo"] is None) == (action.undo is None or not self.declares_undo(n))
            if view["undo"]:
                _same(action.undo, view["undo"])

    def declares_undo(self, ordinal):
        return self.chain[ordinal].endswith("u")


def _moved_back(action, by):
    if action.undo is not None:
        action = replace(action, undo=_moved_back(action.undo, by))
    until = action.next_attempt_at
    return action if until is None else replace(action, next_attempt_at=until - by)


def _letter(action):
    if action.status is Status.SKIPPED:
        return "K" if action.halted_by is None else "H"
    return action.status[0]


def _camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _wire(moment):
    return None if moment is None else wire_time(moment)


SHOWN = ("attempts", "failures", "response_status", "error", "retryable", "duration_ms")


def _same(action, view):
    """What is shown of an action, or of its undo, is what is stored."""
    assert {name: view[_camel(name)] for name in SHOWN} == {
        name: value for name, value in msgspec.structs.asdict(action).items() if name in SHOWN
    }
    assert view.get("status", action.status) == action.status
    assert view.get("haltedBy", action.halted_by) == action.halted_by
    assert view["nextAttemptAt"] == _wire(action.next_attempt_at)
    assert view["completedAt"] == _wire(action.completed_at)
    ended = [entry for entry in view["history"] if entry["outcome"] != "Discarded"]
    assert len(view["history"]) + view["droppedAttempts"] >= len(ended)
    assert len(view["history"]) <= 20


ALWAYS = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": [Phase.generate, Phase.shrink],
}


def going_through(database, **more):
    with World(database) as world:
        RunsMachine.world = world
        run_state_machine_as_test(RunsMachine, settings=settings(**ALWAYS, **more))


@pytest.mark.timeout(400)  # what fails is made smaller first
def test_any_order_of_events(database):
    going_through(database, max_examples=15, stateful_step_count=25, derandomize=True)


@pytest.mark.timeout(400)
def test_any_order_of_failures_and_waits(database):
    """What is next changes by time alone, though nobody writes the run."""

    @settings(**ALWAYS, max_examples=20, derandomize=True)
    @given(
        chain=st.lists(st.sampled_from("CCH"), min_size=2, max_size=3),
        steps=st.lists(
            st.tuples(st.sampled_from("FFFS"), st.sampled_from([0, 1, 15])), min_size=3, max_size=6
        ),
    )
    def go_through(chain, steps):
        machine = RunsMachine()
        machine.begin(chain, ["Safe", "Plain", "Safe"])
        for letter, seconds in steps:
            if machine.is_due(machine.runs[0]):
                machine.perform([letter])
            machine.each_run_is_as_the_model_says()
            machine.wait(seconds)
            machine.each_run_is_as_the_model_says()
            machine.the_jobs_are_what_the_runs_call_for()

    with World(database) as world:
        RunsMachine.world = world
        go_through()


def test_an_example_begins_from_nothing_though_the_one_before_was_cut_off(database):
    async def cut_off(world):
        async with world.conn.transaction():
            await world.execute("update content_type set definition = '{}'")
            asyncio.get_running_loop().stop()  # as when a time-out is raised in the loop
            await asyncio.Event().wait()

    with World(database) as world:
        world.begin_anew()
        with pytest.raises(RuntimeError):
            world.do(cut_off(world))
        world.begin_anew()

        held = world.do(world.rows("select definition <> '{}' from content_type"))
        assert held == [(True,)]
        assert world.do(world.rows("select count(*) from entry")) == [(0,)]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_an_order_of_events(database):
    going_through(database, max_examples=200, stateful_step_count=60)
