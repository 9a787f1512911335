"""A run through any order of claims, outcomes, losses and commands, beside a model on paper."""

from datetime import timedelta

import msgspec
from fix_engine import QUEUED, a_chain
from fix_run_model import Model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from procession.engine.outcome import Failed, Skipped, Succeeded, Unknown
from procession.engine.run import (
    Action,
    HistoryOutcome,
    Refusal,
    Status,
    WorkflowState,
    abandon,
    cancel,
    claim,
    discard,
    due,
    force_end,
    is_finished,
    lose,
    release,
    retry,
    running,
    settle,
    start,
    status,
    stop,
    unserved,
)

WORDS = {
    Status.PENDING: "P",
    Status.RUNNING: "R",
    Status.SUCCEEDED: "S",
    Status.FAILED: "F",
    Status.UNKNOWN: "U",
    Status.CANCELLED: "C",
    Status.NOT_DECLARED: "N",
}
OUTCOMES = {
    "S": Succeeded(),
    "F": Failed("503", retryable=True),
    "f": Failed("400"),
    "U": Unknown("cut"),
    "K": Skipped("gone"),
}

in_flight = precondition(lambda self: self.model.flying is not None)
leased = precondition(lambda self: self.model.flying is not None and self.lease_live)
lapsed = precondition(lambda self: self.model.flying is not None and not self.lease_live)
has_due = precondition(lambda self: self.next() is not None and self.next()[0] <= self.now)
workflows = st.sampled_from(WorkflowState)


class RunMachine(RuleBasedStateMachine):
    @initialize(chain=st.lists(st.sampled_from(["H", "C", "Hu", "Cu"]), min_size=1, max_size=4))
    def queue(self, chain):
        self.model = Model(chain)
        self.chain = a_chain(" ".join(chain))
        self.run = start(self.chain, QUEUED)
        self.now = 0
        self.lease_live = False
        self.history = []
        self.ended = {}

    def clock(self):
        return QUEUED + timedelta(seconds=self.now)

    def next(self):
        return self.model.next(self.now)

    def take(self, step):
        self.run = step.run
        self.history += step.history

    @rule(seconds=st.sampled_from([1, 15, 100]))
    def wait(self, seconds):
        self.now += seconds

    @has_due
    @rule(repeatable=st.booleans())
    def claim(self, repeatable):
        found = due(self.run, self.chain, self.clock())
        lives = self.model.lives
        if found.undo:
            assert all(self.model.undos[n].letter not in "PR" for n in self.after(found.ordinal))
        else:
            halting = [n for n in range(found.ordinal) if self.model.chain[n][0] == "H"]
            assert all(lives[n].letter in "SK" for n in halting)
            assert not self.model.undos
        assert not self.model.cancelled
        self.run = claim(self.run, found, self.clock(), repeatable=repeatable)
        self.model.claim(found.ordinal, found.undo, repeatable)
        self.lease_live = True

    def after(self, ordinal):
        return [n for n in self.model.undos if n > ordinal]

    @leased
    @rule(letter=st.sampled_from("SSFFFfUK"))
    def record(self, letter):
        known = {"now": self.clock(), "jitter": 0.0, "duration_ms": 1, "body": None}
        self.take(settle(self.run, self.chain, OUTCOMES[letter], **known))
        self.model.outcome(letter.upper(), letter == "F", self.now)

    @leased
    @rule()
    def lapse(self):
        self.lease_live = False

    @lapsed
    @rule()
    def rescue(self):
        self.take(lose(self.run, self.chain, now=self.clock()))
        self.model.lapse()

    @leased
    @rule(started=st.booleans())
    def release(self, started):
        self.take(release(self.run, self.chain, now=self.clock(), started=started))
        self.model.release(started)

    @rule(letter=st.sampled_from("SFU"))
    def come_too_late(self, letter):
        for one in self.history[-1:]:
            place = one.ordinal, one.undo, one.number
            self.history.append(discard(*place, OUTCOMES[letter], now=self.clock()))

    @has_due
    @rule()
    def find_nobody_to_serve_it(self):
        _, ordinal, undo = self.next()
        type_ = due(self.run, self.chain, self.clock()).type
        self.take(unserved(self.run, self.chain, type_, now=self.clock()))
        self.model.unserved(ordinal, undo)

    @rule()
    def cancel(self):
        step = cancel(self.run, now=self.clock(), lease_live=self.lease_live)
        if not self.model.is_open:
            assert step == Refusal(code="run-finished")
            return
        self.take(step)
        self.model.cancel(end_flying=not self.lease_live)

    @precondition(lambda self: self.model.flying is None)
    @rule()
    def stop(self):
        was_open = self.model.is_open
        self.take(stop(self.run, now=self.clock()))
        if was_open:
            self.model.cancel(end_flying=False)

    @rule()
    def force_end(self):
        step = force_end(self.run, now=self.clock())
        if not self.model.is_open:
            assert step == Refusal(code="run-finished")
            return
        self.take(step)
        self.model.cancel(end_flying=True)
        assert self.model.status == "Cancelled"

    @rule(workflow=workflows)
    def abandon(self, workflow):
        step = abandon(self.run, self.chain, now=self.clock(), workflow=workflow)
        refusal = self.model.abandon_refusal(workflow)
        if refusal is not None:
            assert step == Refusal(code=refusal)
            return
        self.take(step)
        self.model.roll_back()

    @rule(data=st.data(), workflow=st.sampled_from([WorkflowState.ENABLED] * 3 + [*WorkflowState]))
    def retry(self, data, workflow):
        ordinal = data.draw(st.integers(0, len(self.model.chain) - 1))
        known = {"now": self.clock(), "lease_live": self.lease_live, "workflow": workflow}
        step = retry(self.run, self.chain, ordinal, **known)
        refusal = self.model.retry_refusal(ordinal, self.lease_live, workflow)
        life = self.model.lives[ordinal]
        if refusal is not None:
            assert step.code == refusal
        elif life.letter == "P" and life.until <= self.now:
            assert step.run is self.run
        else:
            self.take(step)
            self.model.retry(ordinal)

    @invariant()
    def the_run_is_as_the_model_says(self):
        for action, life in zip(self.run.actions, self.model.lives, strict=True):
            self.same(action, life)
        undos = {n: one.undo for n, one in enumerate(self.run.actions) if one.undo is not None}
        assert undos.keys() == self.model.undos.keys()
        for ordinal, undo in undos.items():
            self.same(undo, self.model.undos[ordinal])
        assert status(self.run) == self.model.status
        assert self.run.compensation == self.model.compensation

    def same(self, action: Action, life):
        skipped = "K" if action.halted_by is None else "H"
        until = action.next_attempt_at
        waits = int((until - QUEUED).total_seconds()) if until else 0
        assert (
            WORDS.get(action.status, skipped),
            action.attempts,
            action.failures,
            action.lost,
            action.halted_by,
            action.in_doubt,
            waits,
        ) == (
            life.letter,
            life.attempts,
            life.failures,
            life.lost,
            life.halted_by,
            life.in_doubt,
            life.until,
        )
        assert (action.status is Status.FAILED) == (action.retryable is not None)
        assert (action.completed_at is None) == (life.letter in "PRN")
        assert (action.started_at is None) == (life.letter != "R")

    @invariant()
    def an_unfinished_run_is_due_or_in_flight(self):
        found = due(self.run, self.chain, self.clock())
        held = running(self.run) is not None
        assert is_finished(self.run) == (found is None and not held)
        assert not (found and held)
        assert is_finished(self.run) == (not self.model.is_open)
        if found:
            at = int((found.at - QUEUED).total_seconds())
            assert (at, found.ordinal, found.undo) == self.next()
            undo = self.chain.actions[found.ordinal].compensate
            assert found.type == (undo if found.undo else self.chain.actions[found.ordinal]).type

    @invariant()
    def what_is_cancelled_never_went_out(self):
        for life in (*self.model.lives, *self.model.undos.values()):
            assert life.letter != "C" or set(life.tale) <= {"F", "K", "B"}

    @invariant()
    def what_ended_for_good_never_changes(self):
        for ordinal, action in enumerate(self.run.actions):
            for undo, one in ((False, action), (True, action.undo)):
                if one is not None and one.status in {Status.SUCCEEDED, Status.CANCELLED}:
                    kept = msgspec.structs.replace(one, undo=None)
                    assert self.ended.setdefault((ordinal, undo), kept) == kept

    @invariant()
    def each_attempt_that_ended_has_one_entry(self):
        told = [one for one in self.history if one.outcome is not HistoryOutcome.DISCARDED]
        for ordinal, action in enumerate(self.run.actions):
            for undo, one in ((False, action), (True, action.undo)):
                mine = [x.number for x in told if (x.ordinal, x.undo) == (ordinal, undo)]
                flying = running(self.run) == (ordinal, undo)
                last = 0 if one is None else one.attempts - flying
                assert mine == list(range(1, last + 1))

    @invariant()
    def the_document_comes_back_as_it_was_stored(self):
        stored = msgspec.json.encode(self.run)
        assert msgspec.json.decode(stored, type=type(self.run)) == self.run


RunMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestARun = RunMachine.TestCase
