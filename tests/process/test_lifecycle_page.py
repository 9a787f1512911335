"""The commands of docs/run-lifecycle.md, one after the other as a reader types them, twice."""

import asyncio
import re
import shutil
import socket
import sys

import pytest
from fix_pages import Page

pytestmark = pytest.mark.slow

PAGE = Page("run-lifecycle.md")


@pytest.fixture
async def receiver_of_the_page(tmp_path):
    """The page's own receiver, in a folder of its own; its port, and what it has printed."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.text, re.DOTALL)
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
async def test_every_command_of_the_page_shows_what_the_page_says_a_second_time_too(
    command, home, port, receiver_of_the_page
):
    where, folder = receiver_of_the_page
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until("is up. Ctrl-C stops it.")
    key = (home / "key").read_text().strip()

    here = {":8000": f":{port}", ":9000": f":{where}"}
    shown = await PAGE.typed(f"KEY={key}", folder, here, seconds=200, times=2)

    assert shown == PAGE.shows * 2
    asked = [line.split() for line in (folder / "said").read_text().splitlines()]
    assert [path for _, path, _ in asked][:4] == ["/reserve", "/invoice", "/invoice", "/ship"]
    assert len({key for _, path, key in asked[:4] if path == "/invoice"}) == 1
    undone = [(path, key[-7:]) for _, path, key in asked if path.endswith("-off")]
    assert undone[:2] == [("/flight-off", "-1-undo"), ("/hotel-off", "-0-undo")]
