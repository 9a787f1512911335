"""The commands of the README, as a reader types them."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="of the commands with curl")
async def test_the_commands_of_the_readme_fire_a_run_and_show_it(command, home, port):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    run, test, put, get = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert (await made(run)).endswith("bin/procession up")
    assert "/pytest " in await made(test)
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")

    saved = await typed(put, home, port)
    await up.until('"entryId":"mine"')
    async with asyncio.timeout(20):
        while not (shown := (await typed(get, home, port))["items"])[0]["completedAt"]:
            pass

    assert [one["id"] for one in shown] == saved["runIds"]
    assert shown[0]["status"] == "Succeeded"


async def made(line):
    """The last of what make would do."""
    make, *what = line.split()
    shell = await asyncio.create_subprocess_exec(
        *(make, "--dry-run", "--no-print-directory", "--directory", ROOT, *what),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await shell.communicate()
    return said.decode().splitlines()[-1].rstrip()


async def typed(line, home, port):
    line = line.replace(":8000", f":{port}").replace(".procession", str(home))
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    said, _ = await shell.communicate()
    return json.loads(said)
