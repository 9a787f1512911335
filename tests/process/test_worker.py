"""Workers as processes, against a receiver of the test's: what a stop, a kill and a freeze cost."""

import asyncio
import json
import signal
import time

import pytest
from fix_receiver import answer, hang
from fix_worker import OURS, PLAIN, finished, publish

pytestmark = pytest.mark.slow

TAKEOVER = 20.0  # seconds: a lease of 15, and a rescue every 3


@pytest.mark.parametrize("line", [OURS, PLAIN], ids=" ".join)
async def test_a_worker_that_is_asked_to_stop_ends_what_it_began(
    announcing, receiver, work, conn, line
):
    worker, gate = await work(line), asyncio.Event()

    async def wait(writer):
        await gate.wait()
        await answer(204)(writer)

    receiver.will(wait)
    run_id = await publish(announcing, "a")
    later = await publish(announcing, "b")
    await receiver.next()
    worker.send(signal.SIGTERM)
    await worker.until("Stopping. Waiting for 1 action, 25 s at most; Ctrl-C again ends it")
    gate.set()

    assert await worker.ended() == 0
    assert worker.said[-1].endswith("Stopped, as SIGTERM asked")
    run = (await announcing.get(f"/api/workflow-runs/{run_id}")).json()
    assert (run["status"], run["actions"][0]["responseStatus"]) == ("Succeeded", 204)
    assert (await announcing.get(f"/api/workflow-runs/{later}")).json()["status"] == "Pending"
    assert (await (await conn.execute("select count(*) from worker")).fetchone()) == (0,)


@pytest.mark.parametrize("line", [OURS, PLAIN], ids=" ".join)
async def test_each_line_of_a_worker_is_an_object_where_that_is_asked_for(work, line):
    worker = await work(line, LOG__FORMAT="json")

    assert await worker.stop() == 0
    messages = [json.loads(one)["message"] for one in worker.said]
    assert messages[-1] == "Stopped, as SIGTERM asked"
    assert not any("Launching" in one for one in messages)


async def test_what_outlasts_the_grace_is_given_back(announcing, receiver, work):
    worker = await work(SHUTDOWN_GRACE_SECONDS=0)
    receiver.will(hang)
    run_id = await publish(announcing, "a")
    await receiver.next()

    assert await worker.stop() == 0
    run = (await announcing.get(f"/api/workflow-runs/{run_id}")).json()
    assert run["status"] == "Pending"
    assert [one["outcome"] for one in run["actions"][0]["history"]] == ["Released"]


async def test_a_killed_workers_run_is_finished_by_another(announcing, receiver, work):
    first = await work()
    receiver.will(hang)
    run_id = await publish(announcing, "a")
    before = await receiver.next()
    second = await work(PLAIN)
    await first.kill()
    killed_at = time.monotonic()
    changed = {"status": "Published", "data": {}, "sensitivity": "Sensitive"}
    assert (await announcing.put("/api/entries/Article/a", json=changed)).status_code == 200

    run = await finished(announcing, run_id)

    took = time.monotonic() - killed_at
    after = receiver.received[-1]
    assert run["status"] == "Succeeded"
    assert [one["outcome"] for one in run["actions"][0]["history"]] == ["Lost", "Succeeded"]
    assert took < TAKEOVER
    assert after.headers["webhook-id"] == before.headers["webhook-id"]
    assert after.body == before.body
    assert await second.stop() == 0


async def test_a_worker_that_was_frozen_changes_nothing_of_what_another_did(
    announcing, receiver, work
):
    frozen, gate = await work(), asyncio.Event()

    async def wait(writer):
        await gate.wait()
        await answer(410)(writer)

    receiver.will(wait)
    run_id = await publish(announcing, "a")
    await receiver.next()
    frozen.send(signal.SIGSTOP)
    gate.set()
    other = await work()

    run = await finished(announcing, run_id)
    await other.stop()
    frozen.send(signal.SIGCONT)
    later = await finished(announcing, await publish(announcing, "b"))

    again = (await announcing.get(f"/api/workflow-runs/{run_id}")).json()
    assert run["status"] == again["status"] == later["status"] == "Succeeded"
    history = [one["outcome"] for one in again["actions"][0]["history"]]
    assert [one for one in history if one != "Discarded"] == ["Lost", "Succeeded"]
    assert len(receiver.received) == 3


async def test_two_workers_perform_every_action_of_200_runs_once(announcing, receiver, work):
    workers = [await work(WORKFLOWS__RUNNER_CONCURRENCY=10) for _ in range(2)]
    runs = [await publish(announcing, f"a{number}") for number in range(200)]

    done = [await finished(announcing, one) for one in runs]

    assert {one["status"] for one in done} == {"Succeeded"}
    assert [len(one["actions"][0]["history"]) for one in done] == [1] * 200
    assert len(receiver.received) == 200
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 200
    assert [await one.stop() for one in workers] == [0, 0]
