import asyncio
import os
import signal
import socket
import stat

import httpx2
import psycopg
import pytest
from fix_process import postmaster

from procession.app.local import serve

pytestmark = pytest.mark.slow

UP = "is up. Ctrl-C stops it."


async def answered(port, home, entry):
    """The same, once the API has its database back."""
    async with asyncio.timeout(30), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            ready = await client.get(f"http://127.0.0.1:{port}/health/ready")
            if ready.status_code == 200:
                return await publish(port, home, entry)
            await asyncio.sleep(0.1)


async def publish(port, home, entry):
    """Save a published article, and wait for its run to end."""
    headers = {"Authorization": f"Bearer {(home / 'key').read_text().strip()}"}
    base = f"http://127.0.0.1:{port}/api"
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as client:
        body = {"status": "Published", "data": {"Title": entry}}
        saved = await client.put(f"{base}/entries/Article/{entry}", json=body)
        (run_id,) = saved.json()["runIds"]
        async with asyncio.timeout(20):
            while True:
                run = (await client.get(f"{base}/workflow-runs/{run_id}")).json()
                if run["completedAt"]:
                    return run["status"]


async def test_a_first_start_shows_a_run_that_succeeded_and_a_stop_leaves_no_postgres(
    command, home, port
):
    up = await command("procession", "up", "--data", home, "--port", port)

    await up.until(UP)
    assert "for the messages of the sample" in await up.until("Listening on")
    assert "Succeeded" in await up.until("Its run")
    assert "Succeeded, answered 204" in await up.until("attempt 1")
    await up.until("signature good")
    await up.until("curl '")
    assert await publish(port, home, "mine") == "Succeeded"
    await up.until('"entryId":"mine"')
    assert postmaster(home / "postgres")
    assert await up.stop() == 0
    assert postmaster(home / "postgres") is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_stop_while_it_starts_leaves_no_postgres(command, home, port, number):
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("for development only")

    up.send(number)
    await up.ended()

    assert postmaster(home / "postgres") is None


async def test_what_it_makes_is_for_its_owner_only(command, home, port):
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until(UP)
    await up.stop()

    for name in ("control-token", "secrets-keys", "key"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600


async def test_after_kill_9_it_starts_again_with_all_that_was_there(command, home, port):
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")
    await up.kill()
    left = postmaster(home / "postgres")

    again = await command("procession", "up", "--data", home, "--port", port)
    await again.until("curl '")

    assert left == postmaster(home / "postgres")
    assert not any("Saved the entry" in line for line in again.said)
    assert await publish(port, home, "after") == "Succeeded"
    assert await again.stop() == 0
    assert postmaster(home / "postgres") is None


async def test_after_postgres_was_killed_too_it_starts_again(command, home, port):
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")
    await up.kill()
    os.kill(postmaster(home / "postgres"), signal.SIGKILL)

    again = await command("procession", "up", "--data", home, "--port", port)
    await again.until("curl '")

    assert await publish(port, home, "after") == "Succeeded"


async def test_a_postgres_that_is_killed_is_started_again(command, home, port):
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")

    os.kill(postmaster(home / "postgres"), signal.SIGKILL)
    await up.until("Postgres has ended")

    assert await answered(port, home, "after") == "Succeeded"
    assert await up.stop() == 0
    assert postmaster(home / "postgres") is None


async def test_two_at_once_share_one_postgres_and_the_last_stops_it(command, home, port):
    first = await command("procession", "up", "--data", home, "--port", port)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        other = bound.getsockname()[1]
    second = await command("procession", "up", "--data", home, "--port", other)
    await first.until(UP)
    await second.until(UP)

    assert await first.stop() == 0
    assert postmaster(home / "postgres")
    headers = {"Authorization": f"Bearer {(home / 'key').read_text().strip()}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as client:
        flows = await client.get(f"http://127.0.0.1:{other}/api/workflows")
    assert flows.json()["totalItems"] == 1
    assert await second.stop() == 0
    assert postmaster(home / "postgres") is None


async def test_a_port_in_use_is_said_and_leaves_no_postgres(command, home):
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        up = await command("procession", "up", "--data", home, "--port", port)

        await up.until(f"Cannot listen on 127.0.0.1 port {port}: Address already in use.")

    assert await up.ended() == 1
    assert up.said[-1].endswith('another one by --port, with make by ARGS="--port 8080".')
    assert postmaster(home / "postgres") is None


async def test_with_a_database_of_ones_own_it_starts_none(command, home, port):
    with serve(home / "elsewhere") as local:
        up = await command(
            "procession", "up", "--data", home, "--port", port, DATABASE_URL=local.url
        )
        await up.until("curl '")

        assert not (home / "postgres").exists()
        assert await publish(port, home, "mine") == "Succeeded"
        assert await up.stop() == 0
        with psycopg.connect(local.url) as conn:
            assert conn.execute("select count(*) from entry").fetchone() == (2,)
