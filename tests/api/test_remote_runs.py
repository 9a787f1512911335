"""What `procession runs` shows of a run, and which of its actions it retries."""

import json
from datetime import timedelta

from fix_runs import EPOCH, WEBHOOKS, add_attempt, add_run, add_workflow
from msgspec.structs import replace

from procession.engine.run import Action, Compensation, Status
from procession.engine.workflow import Compensate

FAILED = Action(status=Status.FAILED, attempts=1, failures=1, retryable=False)
LATER = EPOCH + timedelta(days=36_500)
THREE = replace(WEBHOOKS, actions=WEBHOOKS.actions[:1] * 3)


async def test_an_undo_is_shown_with_its_attempts_and_an_action_with_what_it_gave(remote, conn):
    off = Compensate(type="Webhook", parameters={"Url": "https://hooks.example.org/off"})
    undoable = replace(WEBHOOKS.actions[0], compensate=off)
    definition = replace(WEBHOOKS, actions=(undoable,))
    undone = Action(status=Status.SUCCEEDED, undo=Action(status=Status.FAILED, attempts=1))
    run = await add_run(
        conn, await add_workflow(conn, definition), undone, definition=definition,
        compensation=Compensation.INCOMPLETE, outputs={0: {"invoiceId": "i-7"}},
    )  # fmt: skip
    await add_attempt(conn, run, 1, outcome="Succeeded", response_status=204)
    await add_attempt(conn, run, 2, undo=True, number=1, outcome="Failed", error="HTTP 410")

    shown, _, _ = await remote.type("runs", "show", run)

    assert shown.splitlines()[-4:] == [
        "  0 Webhook: Succeeded, undo Failed",
        f"      attempt 1  {EPOCH:%Y-%m-%d %H:%M:%S}  Succeeded 204",
        "      output invoiceId  i-7",
        f"      undo attempt 1  {EPOCH:%Y-%m-%d %H:%M:%S}  Failed HTTP 410",
    ]


async def test_a_retry_of_no_action_by_name_is_of_one_that_waits_where_none_has_failed(
    remote, conn
):
    gone = Action(status=Status.SUCCEEDED, attempts=1)
    waits = Action(attempts=2, failures=2, next_attempt_at=LATER)
    flow = await add_workflow(conn, THREE)
    only_waits = await add_run(conn, flow, gone, waits, Action(), definition=THREE)
    both = await add_run(conn, flow, gone, waits, FAILED, definition=THREE)

    await remote.type("runs", "retry", only_waits)
    await remote.type("runs", "retry", both)

    shown = [await remote.type("runs", "show", one, "--json") for one in (only_waits, both)]
    runs = [json.loads(out)["actions"] for out, _, _ in shown]
    assert [[one["failures"] for one in run] for run in runs] == [[0, 0, 0], [0, 2, 0]]


async def test_what_may_have_happened_is_retried_by_its_name_only(remote, conn):
    flow = await add_workflow(conn)
    doubtful = Action(status=Status.UNKNOWN, attempts=1)
    only_doubtful = await add_run(conn, flow, doubtful, Action(status=Status.SUCCEEDED))
    beside = await add_run(conn, flow, doubtful, FAILED)
    ended = await add_run(conn, flow, doubtful, doubtful, cancelled_at=EPOCH)

    _, over, _ = await remote.type("runs", "retry", ended)
    _, err, status = await remote.type("runs", "retry", only_doubtful)
    out, _, _ = await remote.type("runs", "retry", beside)
    named, _, _ = await remote.type("runs", "retry", only_doubtful, "--action", "0")

    assert over == "procession: The run is cancelled (409 run-cancelled).\n"
    says = "Action 0 is Unknown, so it may have happened: to do it once more, say --action 0."
    assert (err, status) == (f"procession: {says}\n", 1)
    assert [one for one in out.splitlines() if one.startswith("  0")] == ["  0 Webhook: Unknown"]
    assert "  0 Webhook: Pending" in named.splitlines()
