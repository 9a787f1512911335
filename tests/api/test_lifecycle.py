"""The life of a run through a real worker and a real database, read and steered by the API."""

import asyncio

import pytest
from fix_queue import WANTED, age, jobs_that_differ

from procession.actions.base import Failed, Skipped, Succeeded, Unknown
from procession.engine.entry import Stub
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue.claim import claim
from procession.queue.rescue import rescue
from procession.queue.types import Recorded, Stopped

RETRYABLE = Failed("503", retryable=True)
PERMANENT = Failed("400")


def step(*, halts=False, undo=None, **more):
    """An action of the type Safe; its undo, where it has one, is of the type Plain."""
    compensate = None if undo is None else Compensate(type="Plain", parameters=undo)
    on_failure = OnFailure.HALT if halts else OnFailure.CONTINUE
    return ActionDefinition(type="Safe", on_failure=on_failure, compensate=compensate, **more)


def reader(**parameters):
    return ActionDefinition(type="Plain", parameters=parameters)


class Chain:
    """A run of some actions, the worker that performs it and the caller that looks at it."""

    def __init__(self, conn, worked, admin, run_id):
        self.conn, self.worked, self.admin, self.id = conn, worked, admin, run_id
        self.recorded = 0

    async def work(self, attempts):
        """Let a worker record so many more attempts."""
        self.recorded += attempts
        async with self.worked.working():
            await self.worked.heard.wait(Recorded, self.recorded)
        assert len(self.worked.heard.of(Recorded)) == self.recorded
        assert await jobs_that_differ(self.conn) == []

    async def wait_over(self):
        """Let the back-off pass."""
        await age(self.conn, due_at=600)

    async def read(self):
        answer = await self.admin.get(f"/api/workflow-runs/{self.id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, what):
        answer = await self.admin.post(f"/api/workflow-runs/{self.id}/{what}")
        assert answer.status_code == 200, answer.text
        assert await jobs_that_differ(self.conn) == []
        return answer.json()


@pytest.fixture
def chain(conn, make, worked, admin):
    async def queued(*actions, outcomes=(), **more):
        made = await make(*actions, **more)
        (run_id,) = await made.queue()
        worked.safe.outcomes.extend(outcomes)
        return Chain(conn, worked, admin, run_id)

    return queued


def statuses(run, name="status"):
    return [action[name] for action in run["actions"]]


async def test_a_captured_output_is_read_by_a_later_action_and_by_nothing_else(chain, worked):
    run = await chain(
        step(capture=("invoice", "total")),
        reader(Id="{{actions.0.invoice}}", Text="{{actions.0.total}} {{ actions.0.total }}"),
        outcomes=[Succeeded({"invoice": "{{id}}", "total": 12.5, "pin": "0815"})],
    )

    await run.work(2)

    assert worked.plain.given[0]["Id"] == "{{id}}"  # what was put in is not read again
    assert worked.plain.given[0]["Text"] == "12.5 12.5"
    shown = await run.read()
    assert statuses(shown, "outputs") == [{"invoice": "{{id}}", "total": "12.5"}, {}]
    assert shown["status"] == "Succeeded"
    cursor = await run.conn.execute("select to_jsonb(run)::text from run")
    assert "0815" not in (await cursor.fetchone())[0]


async def test_an_output_that_may_not_be_kept_is_named_and_the_action_succeeds(chain):
    run = await chain(
        step(capture=("long", "list", "gone", "fits")),
        outcomes=[Succeeded({"long": "x" * 2001, "list": [1], "fits": "y" * 2000})],
    )

    await run.work(1)

    (action,) = (await run.read())["actions"]
    assert (action["status"], action["outputs"]) == ("Succeeded", {"fits": "y" * 2000})
    assert action["error"].endswith("long, list")


async def test_a_reader_waits_out_the_back_off_of_what_it_reads(chain, worked):
    run = await chain(
        step(capture=("invoice",)),
        reader(Id="{{actions.0.invoice}}"),
        outcomes=[RETRYABLE, Succeeded({"invoice": "i-7"})],
    )

    await run.work(2)

    shown = await run.read()
    waiting = shown["actions"][1]
    assert (waiting["status"], waiting["failures"], worked.plain.seen) == ("Pending", 1, [])
    assert waiting["error"] == "The parameter Id reads {{actions.0.invoice}}, which has no value."
    assert waiting["history"][0]["outcome"] == "Retried"
    assert waiting["history"][0]["retryable"] is True
    assert shown["waiting"]["reason"] == "RetryAt"

    while (await run.read())["completedAt"] is None:  # whose wait ends first is for the dice
        await run.wait_over()
        await run.work(1)

    assert statuses(await run.read()) == ["Succeeded", "Succeeded"]
    assert [one["Id"] for one in worked.plain.given] == ["i-7"]


@pytest.mark.parametrize("outcome", [Succeeded(), Skipped("nothing to do"), Unknown("cut off")])
async def test_a_value_that_never_comes_fails_its_reader_as_retryable(chain, worked, outcome):
    run = await chain(
        step(capture=("invoice",)), reader(Id="{{actions.0.invoice}}"), outcomes=[outcome]
    )

    await run.work(2)
    for _ in range(4):
        await run.wait_over()
        await run.work(1)

    action = (await run.read())["actions"][1]
    assert (action["status"], action["retryable"], action["attempts"]) == ("Failed", True, 5)
    assert "{{actions.0.invoice}}" in action["error"]
    assert worked.plain.seen == []


async def test_a_halt_for_good_undoes_what_was_done_the_last_first(chain, worked):
    run = await chain(
        step(capture=("id",), undo={"Ref": "{{actions.0.id}} of {{actions.1.id}}"}),
        step(capture=("id",), undo={"Ref": "{{actions.1.id}}"}),
        step(halts=True),
        step(),
        outcomes=[Succeeded({"id": "a"}), Succeeded({"id": "b"}), PERMANENT],
    )

    await run.work(5)

    assert [one["Ref"] for one in worked.plain.given] == ["b", "a of b"]
    assert [one["CompensationOf"] for one in worked.plain.given] == ["1", "0"]
    assert [one.compensation_of for one in worked.plain.seen] == [1, 0]
    keys = [f"{run.id.hex}-1-undo", f"{run.id.hex}-0-undo"]
    assert [one.idempotency_key for one in worked.plain.seen] == keys
    shown = await run.read()
    assert (shown["status"], shown["compensation"]) == ("PartiallyFailed", "Compensated")
    assert (shown["abandonedAt"], shown["cancelledAt"]) == (None, None)
    assert statuses(shown) == ["Succeeded", "Succeeded", "Failed", "Skipped"]
    assert statuses(shown, "haltedBy") == [None, None, None, 2]
    assert statuses(shown, "compensation") == ["Succeeded", "Succeeded", None, None]
    assert shown["actions"][0]["undo"]["attempts"] == 1
    assert [one["outcome"] for one in shown["actions"][0]["undo"]["history"]] == ["Succeeded"]
    assert [one["outcome"] for one in shown["actions"][0]["history"]] == ["Succeeded"]
    answer = await run.admin.post(f"/api/workflow-runs/{run.id}/actions/2/retry")
    assert answer.json()["code"] == "run-rolled-back"


async def test_what_declares_no_undo_is_left_and_said(chain):
    run = await chain(
        step(undo={}), step(), step(halts=True), outcomes=[Succeeded()] * 2 + [PERMANENT]
    )

    await run.work(4)

    shown = await run.read()
    assert statuses(shown, "compensation") == ["Succeeded", "NotDeclared", None]
    assert shown["compensation"] == "Incomplete"


@pytest.mark.parametrize(
    ("outcome", "stands"), [(PERMANENT, "Failed"), (Unknown("cut off"), "Unknown")]
)
async def test_an_undo_that_fails_does_not_stop_the_ones_before_it(chain, worked, outcome, stands):
    run = await chain(
        step(undo={}),
        step(undo={}),
        step(halts=True),
        outcomes=[Succeeded(), Succeeded(), PERMANENT],
    )
    worked.plain.outcomes.append(outcome)

    await run.work(5)

    shown = await run.read()
    assert statuses(shown, "compensation") == ["Succeeded", stands, None]
    assert (shown["status"], shown["compensation"]) == ("PartiallyFailed", "Incomplete")


async def test_an_undo_that_waits_holds_back_the_ones_before_it(chain, worked):
    run = await chain(
        step(undo={}),
        step(undo={}),
        step(halts=True),
        outcomes=[Succeeded(), Succeeded(), PERMANENT],
    )
    worked.plain.outcomes.append(RETRYABLE)

    await run.work(4)

    shown = await run.read()
    assert (shown["status"], shown["compensation"]) == ("Running", "Compensating")
    assert statuses(shown, "compensation") == ["Pending", "Pending", None]
    assert (shown["waiting"]["reason"], shown["waiting"]["ordinal"]) == ("RetryAt", 1)
    assert shown["actions"][1]["undo"]["failures"] == 1

    await run.wait_over()
    await run.work(2)

    assert [one.ordinal for one in worked.plain.seen] == [1, 1, 0]
    assert (await run.read())["compensation"] == "Compensated"


async def test_an_undo_goes_on_without_its_entry(chain, worked, conn):
    run = await chain(step(undo={}), step(halts=True), outcomes=[Succeeded(), PERMANENT])
    worked.plain.outcomes.append(RETRYABLE)
    await run.work(3)
    await conn.execute("delete from entry")

    await run.wait_over()
    await run.work(1)

    assert (await run.read())["compensation"] == "Compensated"
    assert worked.plain.seen[-1].entry == Stub(id="a1", content_type="article")


async def test_undos_of_a_workflow_that_is_switched_off_are_not_begun(chain, worked, conn):
    run = await chain(
        step(undo={}), step(undo={}), step(halts=True), outcomes=[Succeeded()] * 2 + [PERMANENT]
    )
    worked.plain.outcomes.append(RETRYABLE)
    await run.work(4)
    await conn.execute("update workflow set enabled = false")

    await run.wait_over()
    async with worked.working():
        await worked.heard.wait(Stopped)

    shown = await run.read()
    assert statuses(shown, "compensation") == ["Cancelled", "Cancelled", None]
    assert (shown["status"], shown["compensation"]) == ("Cancelled", "Incomplete")
    assert len(worked.plain.seen) == 1
    assert (await run.admin.get("/api/audit")).json()["items"] == []
    assert await jobs_that_differ(conn) == []


async def test_nothing_done_is_nothing_to_undo_and_the_halt_can_be_retried(chain):
    run = await chain(step(undo={}, halts=True), step(), outcomes=[PERMANENT])

    await run.work(1)

    shown = await run.read()
    assert (shown["status"], shown["compensation"]) == ("Failed", None)
    assert statuses(await run.post("actions/0/retry")) == ["Pending", "Pending"]


async def test_what_a_halt_held_up_is_resumed_by_a_retry(chain, worked):
    run = await chain(
        step(),
        step(halts=True),
        step(),
        reader(),
        outcomes=[Succeeded(), PERMANENT],
    )
    await run.work(2)
    shown = await run.read()
    assert shown["status"] == "PartiallyFailed"
    assert statuses(shown) == ["Succeeded", "Failed", "Skipped", "Skipped"]
    assert statuses(shown, "haltedBy") == [None, None, 1, 1]
    refused = await run.admin.post(f"/api/workflow-runs/{run.id}/actions/3/retry")
    assert (refused.json()["code"], refused.json()["haltedBy"]) == ("action-skipped-behind-halt", 1)

    resumed = await run.post("actions/1/retry")
    assert statuses(resumed) == ["Succeeded", "Pending", "Pending", "Pending"]
    assert resumed["completedAt"] is None
    await run.work(3)

    shown = await run.read()
    assert (shown["status"], statuses(shown)) == ("Succeeded", ["Succeeded"] * 4)
    assert [one.ordinal for one in worked.safe.seen] == [0, 1, 1, 2]
    assert [one["outcome"] for one in shown["actions"][1]["history"]] == ["Failed", "Succeeded"]
    keys = {one.idempotency_key for one in worked.safe.seen if one.ordinal == 1}
    assert keys == {f"{run.id.hex}-1"}


async def test_an_unknown_halts_and_waits_for_a_person_who_may_abandon_the_run(chain, worked):
    run = await chain(
        step(undo={}), step(halts=True), step(), outcomes=[Succeeded(), Unknown("cut off")]
    )
    await run.work(2)
    shown = await run.read()
    assert (shown["status"], shown["compensation"]) == ("PartiallyFailed", None)
    assert statuses(shown) == ["Succeeded", "Unknown", "Skipped"]

    abandoned = await run.post("abandon")
    assert (abandoned["status"], abandoned["compensation"]) == ("Running", "Compensating")
    await run.work(1)

    shown = await run.read()
    assert (shown["status"], shown["compensation"]) == ("PartiallyFailed", "Compensated")
    assert shown["abandonedAt"] is not None
    assert statuses(shown) == ["Succeeded", "Unknown", "Skipped"]
    assert len(worked.plain.seen) == 1


async def test_an_entry_that_is_gone_halts_nothing(chain, worked):
    run = await chain(step(halts=True), step(halts=True), step(), entry=False)

    await run.work(3)

    shown = await run.read()
    assert (shown["status"], statuses(shown)) == ("Succeeded", ["Skipped"] * 3)
    assert statuses(shown, "haltedBy") == [None] * 3
    assert statuses(shown, "error") == ["The entry no longer exists."] * 3
    assert worked.safe.seen == []


async def test_a_third_loss_in_a_row_is_unknown_and_halts(chain, conn, kept):
    run = await chain(step(halts=True), step())
    for number in range(1, 4):
        (taken,) = await claim(conn, WANTED, 1)
        assert taken.action.attempts == number
        await age(conn, lease_until=16)
        (rescued,) = await asyncio.to_thread(rescue, kept)
        assert rescued.run_id == run.id

    shown = await run.read()
    assert statuses(shown) == ["Unknown", "Skipped"]
    assert [one["outcome"] for one in shown["actions"][0]["history"]] == ["Lost"] * 3
    assert await claim(conn, WANTED, 1) == []
    assert statuses(await run.post("actions/0/retry")) == ["Pending", "Pending"]
    (taken,) = await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    await asyncio.to_thread(rescue, kept)
    assert statuses(await run.read()) == ["Pending", "Pending"]  # counted from the retry


async def test_an_outcome_ends_a_row_of_losses(chain, conn, kept):
    run = await chain(step(), outcomes=[RETRYABLE])
    for _ in range(2):
        await claim(conn, WANTED, 1)
        await age(conn, lease_until=16)
        await asyncio.to_thread(rescue, kept)
    await run.work(1)
    await run.wait_over()
    await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)

    await asyncio.to_thread(rescue, kept)

    assert statuses(await run.read()) == ["Pending"]


async def test_a_cancel_while_an_action_is_in_flight_lets_it_end(chain, worked):
    run = await chain(step(), step())
    worked.safe.gate.clear()
    async with worked.working():
        await worked.safe.begun.wait()
        cancelled = await run.post("cancel")
        assert (cancelled["status"], statuses(cancelled)) == ("Running", ["Running", "Cancelled"])
        worked.safe.gate.set()
        await worked.heard.wait(Recorded)

    shown = await run.read()
    assert (shown["status"], statuses(shown)) == ("Cancelled", ["Succeeded", "Cancelled"])
    assert len(worked.safe.seen) == 1
    assert await jobs_that_differ(run.conn) == []
