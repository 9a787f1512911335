"""What a platform reads: each line of the Procfile is run as it stands, and so is Railway's."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest
from fix_process import COMMANDS, KEYS
from fix_worker import announce, finished, free_port, publish

from procession.app.settings import Settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LINES = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
TOKEN = "a-token-of-32-characters-or-more-"


def railway(name):
    return json.loads((ROOT / "railway" / f"{name}.json").read_text())["deploy"]


@pytest.fixture
def line(command, fresh):
    """Runs a line as a platform does: by a shell that becomes it."""

    async def start(text, **variables):
        path = f"{COMMANDS}:{os.environ['PATH']}"
        settings = {"DATABASE_URL": fresh.url, "SECRETS__KEYS": KEYS, "CONTROL_TOKEN": TOKEN}
        more = {"HOST": "::", "PATH": path, "OUTBOUND__ALLOWED_NETWORKS": "127.0.0.0/8"}
        return await command("/bin/sh", "-c", f"exec {text}", **settings | more | variables)

    return start


def caller(port):
    return httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {TOKEN}", "X-Tenant": "default"},
        trust_env=False,
    )


async def until_ready(port, path="/health/ready"):
    """As the platform asks before it lets anybody in."""
    async with caller(port) as client, asyncio.timeout(60):
        while True:
            try:
                if (await client.get(path)).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.1)


async def test_the_procfile_migrates_serves_and_works(line, receiver):
    ports = {"web": await free_port(), "worker": await free_port()}
    assert list(LINES) == ["release", "web", "worker"]

    release = await line(LINES["release"])
    assert await release.ended() == 0, release.said
    running = [await line(LINES[name], PORT=port) for name, port in ports.items()]
    for port in ports.values():
        await until_ready(port)
    async with caller(ports["web"]) as client:
        assert (await client.put("/api/content-types/Article", json={})).status_code == 201
        await announce(client, receiver)
        run = await finished(client, await publish(client, "a"))

    assert run["status"] == "Succeeded"
    assert [await one.stop() for one in running] == [0, 0]


@pytest.mark.parametrize(("service", "process"), [("api", "web"), ("worker", "worker")])
async def test_a_service_of_railways_starts_as_its_file_says(line, service, process):
    deploy, port = railway(service), await free_port()
    for before in (*deploy["preDeployCommand"], *deploy["preDeployCommand"]):
        assert await (await line(before)).ended() == 0

    running = await line(deploy["startCommand"], PORT=port)
    await until_ready(port, deploy["healthcheckPath"])

    assert await running.stop() == 0
    assert deploy["startCommand"] == LINES[process]
    assert deploy["preDeployCommand"] == [LINES["release"]]


@pytest.mark.parametrize("service", ["api", "worker"])
def test_a_service_of_railways_is_kept_up_and_left_time_to_stop(service):
    deploy = railway(service)
    page = (ROOT / "docs/railway.md").read_text()
    (grace,) = set(re.findall(r"SHUTDOWN_GRACE_SECONDS \| (\d+) \| \d+ \|", page))

    assert deploy["restartPolicyType"] == "ALWAYS"
    assert deploy["sleepApplication"] is False
    assert int(grace) == Settings.model_fields["shutdown_grace_seconds"].default
    assert deploy["drainingSeconds"] >= int(grace) + 10


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_first_process_possible():
    unshare = shutil.which("unshare")
    return (
        unshare and not subprocess.run([unshare, "--pid", "--fork", "true"], check=False).returncode
    )


@pytest.mark.skipif(not is_first_process_possible(), reason="needs a process tree of its own")
@pytest.mark.parametrize("process", ["web", "worker"])
async def test_the_first_process_of_a_container_hears_that_it_is_to_stop(line, process):
    assert await (await line(LINES["release"])).ended() == 0
    port = await free_port()
    inner = shlex.join(["/bin/sh", "-c", f"exec {LINES[process]}"])
    outer = await line(f"unshare --pid --fork --kill-child {inner}", PORT=port)
    await until_ready(port)
    (first,) = children(outer.process.pid)

    os.kill(int(first), signal.SIGTERM)

    assert await outer.ended(seconds=35) == 0
