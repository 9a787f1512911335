"""Why a worker is not ready, as far as it knows by itself: what it has not managed for too long."""

import signal
from time import monotonic

import httpx2
import pytest
from fix_receiver import hang
from fix_worker import free_port, publish

from procession.actions.registry import Registry
from procession.app import runner as module
from procession.app.runner import Options, Runner
from procession.outbound.http import Client, Rules


@pytest.mark.parametrize(
    ("seconds", "reasons"),
    [
        (9.5, []),
        (10.5, ["leases"]),
        (15.5, ["heartbeat", "leases"]),
        (30.5, ["pass", "heartbeat", "leases"]),
    ],
)
async def test_a_worker_is_not_ready_for_what_it_has_not_managed(
    database, pool, monkeypatch, seconds, reasons
):
    """Nothing of it runs here: so it manages nothing from when it was made."""
    made, idle = [await runner(database, pool, enabled=one) for one in (True, False)]
    monkeypatch.setattr(module, "monotonic", lambda: monotonic() + seconds)

    assert made.reasons() == reasons
    assert idle.reasons() == [one for one in reasons if one != "pass"]


async def runner(database, pool, **options):
    async with Client(Rules()) as client:
        return Runner(pool, Options(database=database, **options), Registry({}), client)


async def test_a_worker_that_works_is_ready(worked):
    async with worked.working() as ours:
        assert ours.runner.reasons() == []


@pytest.mark.slow
async def test_a_worker_that_is_to_stop_lives_and_is_not_ready(announcing, receiver, work):
    port = await free_port()
    worker = await work(PORT=port)
    receiver.will(hang)
    await publish(announcing, "a")
    await receiver.next()
    worker.send(signal.SIGTERM)

    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        while (ready := await client.get("/health/ready")).status_code == 200:
            continue
        live = await client.get("/health/live")

    assert ready.json() == {"status": "not-ready", "reasons": ["stopping"]}
    assert live.status_code == 200
    worker.send(signal.SIGINT)
    assert await worker.ended() == 1
    assert worker.said[-1].endswith("left to others: a second signal, SIGINT")
