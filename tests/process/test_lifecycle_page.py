"""The commands of docs/run-lifecycle.md, one after the other as a reader types them."""

import asyncio
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs/run-lifecycle.md"
COMMANDS = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
END = "-- end of a block --"


@pytest.fixture
async def receiver_of_the_page(tmp_path):
    """The page's own receiver, in a folder of its own; its port, and what it has printed."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    (tmp_path / "receiver.py").write_text(code.replace("9000", str(port)))
    with (tmp_path / "said").open("w") as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "receiver.py", cwd=tmp_path, stdout=said
        )
    yield port, tmp_path
    process.kill()
    await process.wait()


@pytest.mark.skipif(shutil.which("curl") is None, reason="of the commands with curl")
async def test_every_command_of_the_page_shows_what_the_page_says(
    command, home, port, receiver_of_the_page
):
    where, folder = receiver_of_the_page
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until("is up. Ctrl-C stops it.")
    blocks = COMMANDS.findall(PAGE.read_text(encoding="utf-8"))
    script = "\n".join(f"{typed}\necho '{END}'" for typed, _ in blocks)
    script = script.replace(":8000", f":{port}").replace(":9000", f":{where}")
    key = (home / "key").read_text().strip()

    async with asyncio.timeout(100):
        shell = await asyncio.create_subprocess_exec(
            "bash", "-c", f"KEY={key}\n{script}", cwd=folder, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await shell.communicate()

    shown = [one.strip("\n") for one in said.decode().split(END)][:-1]
    assert [plain(one) for one in shown] == [plain(text) for _, text in blocks]
    asked = [line.split() for line in (folder / "said").read_text().splitlines()]
    assert [path for _, path, _ in asked][:4] == ["/reserve", "/invoice", "/invoice", "/ship"]
    assert len({key for _, path, key in asked[:4] if path == "/invoice"}) == 1
    undone = [(path, key[-7:]) for _, path, key in asked if path.endswith("-off")]
    assert undone[:2] == [("/flight-off", "-1-undo"), ("/hotel-off", "-0-undo")]


def plain(text):
    return [line.rstrip() for line in text.strip("\n").splitlines()]
