"""A stop that is asked for is kept, though Postgres stands still and lets nobody go."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import httpx2
import pytest
from fix_process import KEYS, postmaster
from fix_worker import free_port

from procession.app.local import serve
from procession.queue.migrate import migrate
from procession.queue.pool import Database

pytestmark = pytest.mark.slow

LONGEST = 15 + 5  # seconds after a grace of none, and what a busy machine adds


@contextlib.contextmanager
def frozen(data):
    """The server of this folder and all of its processes, which stand still."""
    first = postmaster(data)
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    all_of_it = [first, *map(int, children)]
    for one in all_of_it:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in all_of_it:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


async def asked_in_vain(port):
    """A request that waits for the database, which knows whose the key is."""
    headers = {"Authorization": f"Bearer prc_{12 * 'a'}_{43 * 'b'}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as client:
        with contextlib.suppress(httpx2.HTTPError):
            await client.get(f"http://127.0.0.1:{port}/api/me", timeout=60)


async def ended_in_time(running):
    begun = time.monotonic()
    running.send(signal.SIGTERM)
    status = await running.ended()
    assert time.monotonic() - begun < LONGEST
    return status


@pytest.mark.parametrize("name", ["api", "worker"])
async def test_a_process_ends_though_its_database_stands_still(home, command, name):
    port = await free_port()
    with serve(home / "postgres") as local:
        migrate(Database(local.url))
        process = await command(
            "procession",
            name,
            DATABASE_URL=local.url,
            HOST="127.0.0.1",
            PORT=port,
            SECRETS__KEYS=KEYS,
            SHUTDOWN_GRACE_SECONDS=0,
        )
        await process.until("Listening on")
        with frozen(home / "postgres"):
            asking = asyncio.create_task(asked_in_vain(port))
            await asyncio.wait({asking}, timeout=1)

            assert await ended_in_time(process) in {0, 1}
        await asking


async def test_up_ends_though_its_own_postgres_stands_still(home, command, port):
    up = await command(
        "procession", "up", "--data", home, "--port", port, "--no-sample", SHUTDOWN_GRACE_SECONDS=0
    )
    await up.until("is up. Ctrl-C stops it.")

    with frozen(home / "postgres"):
        assert await ended_in_time(up) in {0, 1}
