"""What moves when: the counters of a worker on a real database."""

from datetime import timedelta
from time import time

import pytest
from fix_metrics import Counted
from fix_queue import WANTED, age

from procession.actions.base import Failed, Succeeded, Unknown
from procession.actions.update_field import UpdateField
from procession.engine.change import Change, Key, changed
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue.acting import Entries
from procession.queue.claim import claim
from procession.queue.types import (
    Beaten,
    Claimed,
    Discarded,
    Passed,
    Queued,
    Recorded,
    Released,
    Rescued,
    Stopped,
    Unserved,
)
from procession.tasks.attempt import acting_of

ARTICLE = Key("default", "article", "a1")
CLAIMED = ("attempts_claimed_total",)
LOST = ("attempts_lost_total",)
RELEASED = ("attempts_released_total",)
DISCARDED = ("attempts_discarded_total",)
HALTED = ("runs_halted_total",)


def attempts(action, outcome):
    return ("attempts_total", *sorted((action, outcome)))


def finished(status):
    return ("runs_finished_total", status)


def ran(action):
    return ("action_duration_seconds_count", action)


@pytest.mark.parametrize(
    ("outcome", "name", "status"),
    [
        (Succeeded(), "succeeded", "succeeded"),
        (Failed("400"), "failed", "failed"),
        (Failed("503", retryable=True), "retried", None),
        (Unknown("cut off"), "unknown", "failed"),
    ],
)
async def test_an_outcome_moves_its_counter_once_it_is_recorded(  # noqa: PLR0913, PLR0917  a row of the table
    make, worked, counted, outcome, name, status
):
    await (await make("Safe")).queue()
    worked.safe.outcomes.append(outcome)
    async with worked.working():
        await counted.wait(Recorded)

    moved = {CLAIMED: 1, attempts("Safe", name): 1, ran("Safe"): 1}
    assert counted.moved() == moved | ({finished(status): 1} if status else {})


async def test_what_is_skipped_has_no_duration(make, worked, counted):
    await (await make("Safe", entry=False)).queue()
    async with worked.working():
        await counted.wait(Recorded)

    moved = {CLAIMED: 1, attempts("Safe", "skipped"): 1, finished("succeeded"): 1}
    assert counted.moved() == moved


async def test_a_run_of_two_is_partially_failed_and_a_halt_is_counted_once(make, worked, counted):
    halting = ActionDefinition(type="Plain", on_failure=OnFailure.HALT)
    await (await make("Safe", halting, "Safe", "Safe")).queue()
    worked.plain.outcomes.append(Failed("400"))
    async with worked.working():
        await counted.wait(Recorded, 2)

    moved = counted.moved()
    assert (moved[HALTED], moved[finished("partially_failed")]) == (1, 1)
    assert (moved[attempts("Safe", "succeeded")], moved[CLAIMED]) == (1, 2)
    assert attempts("Safe", "skipped") not in moved


async def test_a_halt_that_skips_nothing_is_not_counted(make, worked, counted):
    await (await make(ActionDefinition(type="Plain", on_failure=OnFailure.HALT))).queue()
    worked.plain.outcomes.append(Failed("400"))
    async with worked.working():
        await counted.wait(Recorded)

    assert HALTED not in counted.moved()


async def test_an_undo_counts_under_its_own_type(make, worked, counted):
    undone = ActionDefinition(type="Safe", compensate=Compensate(type="Plain"))
    halting = ActionDefinition(type="Safe", on_failure=OnFailure.HALT)
    await (await make(undone, halting)).queue()
    worked.safe.outcomes += [Succeeded(), Failed("400")]
    async with worked.working():
        await counted.wait(Recorded, 3)

    assert counted.moved()[attempts("Plain", "succeeded")] == 1
    assert counted.moved()[finished("partially_failed")] == 1


async def test_a_rescue_is_a_loss_and_no_outcome(conn, make, worked, counted):
    for kind in ("Safe", "Plain"):
        await (await make(kind)).queue()
    await claim(conn, WANTED, 2)
    await age(conn, lease_until=16)
    async with worked.working():
        await counted.wait(Rescued, 2)
        await counted.wait(Recorded)

    moved = {CLAIMED: 1, LOST: 2, attempts("Safe", "succeeded"): 1, ran("Safe"): 1}
    assert counted.moved() == moved | {finished("failed"): 1, finished("succeeded"): 1}


@pytest.mark.parametrize(
    ("kind", "moved"),
    [
        ("Safe", {RELEASED: 1}),
        ("Plain", {attempts("Plain", "unknown"): 1, finished("failed"): 1}),
    ],
)
async def test_what_a_stop_gives_back_is_no_outcome(make, worked, counted, kind, moved):
    await (await make(kind)).queue()
    action = worked.safe if kind == "Safe" else worked.plain
    action.gate.clear()
    async with worked.working(grace=timedelta(seconds=0.1)) as ours:
        await action.begun.wait()
        assert counted.moved() == {CLAIMED: 1}
        ours.stop.set()
        await counted.wait(Released)

    assert counted.moved() == {CLAIMED: 1, **moved}


async def test_an_outcome_after_its_lease_is_discarded_and_nothing_else(
    conn, make, worked, counted
):
    await (await make("Safe")).queue()
    worked.safe.gate.clear()
    async with worked.working():
        await worked.safe.begun.wait()
        await conn.execute("update run set lease_token = lease_token + 1000")
        worked.safe.gate.set()
        await counted.wait(Discarded)

    assert counted.moved() == {CLAIMED: 1, DISCARDED: 1}


async def test_what_no_worker_serves_is_a_failure_of_others(conn, make, worked, counted):
    await (await make("Nobody's")).queue()
    async with worked.working():
        await counted.wait(Beaten)
        await conn.execute("update worker set started_at = started_at - interval '1 day'")
        await conn.execute("update run set no_worker_since = now() - interval '11 minutes'")
        await counted.wait(Unserved)

    assert counted.moved() == {attempts("other", "failed"): 1, finished("failed"): 1}


async def test_a_run_that_is_stopped_with_its_workflow_is_counted_as_finished(
    conn, make, worked, counted
):
    await (await make("Safe")).queue()
    await conn.execute("update workflow set enabled = false")
    async with worked.working():
        await counted.wait(Stopped)

    assert counted.moved() == {finished("cancelled"): 1}


FIRES = """
    insert into workflow_trigger (tenant, content_type, event, workflow_id)
    values ('default', 'article', 'Updated', %s)
"""


def titled(title):
    return lambda made, entry: changed(entry, ARTICLE, Change(data={"title": title}), made)


async def test_runs_that_an_action_queues_are_told_of_once_they_are_committed(
    conn, pool, make, heard
):
    (made, other) = (await make("Safe"), await make("Plain"))
    await conn.execute(FIRES, (other.id,))
    await made.queue()
    (taken,) = await claim(conn, WANTED, 1)
    entries = Entries(pool, acting_of(taken, 10), heard)

    await conn.execute("update run set lease_token = lease_token + 1")
    assert isinstance(await entries.once("m", "article", "a1", titled("Two")), Failed)
    assert heard.all == []
    await conn.execute("update run set lease_token = lease_token - 1")
    for _ in range(2):  # the second finds the marker
        assert await entries.once("m", "article", "a1", titled("Two")) == Succeeded()

    assert heard.all == [Queued(("Updated",))]


async def test_a_worker_counts_the_runs_that_its_actions_queue(conn, make, worked, counted):
    worked.more["UpdateField"] = UpdateField()
    update = ActionDefinition(type="UpdateField", parameters={"Field": "title", "Value": "Two"})
    made = await make(update)
    await conn.execute(FIRES, ((await make("Plain")).id,))
    await made.queue()
    async with worked.working():
        await counted.wait(Recorded, 2)

    assert counted.moved()["runs_queued_total", "updated"] == 1


async def test_the_gauges_say_what_is_now(make, worked, counted):
    await (await make("Safe")).queue(3)
    worked.safe.gate.clear()
    began = time()
    async with worked.working(concurrency=2) as ours:
        counted.of_worker.watch(lambda: ours.runner.in_flight)
        await counted.wait(Claimed)
        assert counted.now()["actions_in_flight",] == 2
        await counted.wait(Passed, 2)
        assert began < counted.now()["runner_last_pass_timestamp_seconds",] < time()
        worked.safe.gate.set()
        await counted.wait(Recorded, 3)


async def test_a_worker_whose_runner_is_off_publishes_no_pass(worked, counted):
    async with worked.working(enabled=False):
        await counted.wait(Beaten)

    assert ("runner_last_pass_timestamp_seconds",) not in counted.now()


async def test_claims_are_accounted_for(make, worked, counted):
    await (await make("Safe", "Plain")).queue(20)
    worked.safe.outcomes += [Failed("503", retryable=True), Unknown("hm"), Failed("400")]
    async with worked.working(concurrency=5) as ours:
        await counted.wait(Recorded, 30)
        ours.stop.set()
        await ours.task

    now = counted.now()
    recorded = sum(value for key, value in now.items() if key[0] == "attempts_total")
    assert now[CLAIMED] == recorded + now[LOST] + now[RELEASED] + ours.runner.in_flight


OUTCOMES = ("succeeded", "failed", "retried", "unknown", "skipped")


def test_fifty_types_have_names_of_their_own_and_the_rest_are_others():
    types = [f"T{number:02}" for number in range(60)]
    counted = Counted(*types)
    for one in [*types, "T00", "stranger", "T59"]:
        counted.of_worker.attempted(one, "succeeded", 0.2)

    now = counted.now()
    assert len([key for key in now if key[0] == "attempts_total"]) == 51 * len(OUTCOMES)
    assert len([key for key in now if key[0] == "action_duration_seconds_count"]) == 51
    assert now["attempts_total", "T00", "succeeded"] == 2
    assert now["attempts_total", "other", "succeeded"] == 12


def test_a_scrape_begins_with_all_labels_at_0_and_knows_no_created_series():
    counted = Counted("Safe")

    now = counted.now()
    assert set(now.values()) == {0}
    assert [key[1] for key in now if key[0] == "runs_queued_total"] == [
        *("created", "updated", "deleted", "published", "unpublished", "transition", "other")
    ]
    assert [key[1] for key in now if key[0] == "runs_finished_total"] == [
        *("succeeded", "failed", "partially_failed", "cancelled")
    ]
    assert {key for key in now if key[0] == "attempts_total"} == {
        attempts(action, outcome) for action in ("Safe", "other") for outcome in OUTCOMES
    }
    names = ["0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "60.0"]
    assert {key for key in now if key[0] == "action_duration_seconds_bucket"} == {
        ("action_duration_seconds_bucket", *sorted((action, bucket)))
        for action in ("Safe", "other")
        for bucket in [*names, "120.0", "300.0", "+Inf"]
    }
    assert b"_created" not in counted.metrics.text()


def test_the_first_failures_of_a_type_rise_from_0():
    counted = Counted("Safe")
    before = counted.now()
    for _ in range(20):
        counted.of_worker.attempted("Safe", "failed", 0.2)

    rises = {key: value - before[key] for key, value in counted.now().items()}
    assert rises[attempts("Safe", "failed")] == rises[ran("Safe")] == 20


@pytest.mark.parametrize(
    ("trigger", "label"),
    [
        ("Created", "created"),
        ("Unpublished", "unpublished"),
        ("transition:Approve", "transition"),
        ("transition:other", "transition"),
        ("Manual", "other"),
        ("Whatever", "other"),
    ],
)
def test_a_trigger_is_one_of_seven(trigger, label):
    counted = Counted()
    counted(Queued((trigger, trigger)))

    assert counted.moved() == {("runs_queued_total", label): 2}
