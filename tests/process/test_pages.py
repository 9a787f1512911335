"""The commands of the pages for who uses it, as a reader types them."""

import asyncio
import re
import shutil
import sys

import pytest
from fix_pages import DOCS, Page, receiver
from fix_process import COMMANDS

from procession.outbound.signing import keys_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="of the commands with curl"),
]


def elsewhere(home, port):
    """What the command line takes from the folder and the port of `make run`."""
    return f"export PROCESSION_URL=http://127.0.0.1:{port} PROCESSION_KEY=$(cat {home}/key)"


async def test_every_command_of_the_api_page_shows_what_the_page_says_a_second_time_too(
    command, home, port, tmp_path
):
    page = Page("api.md")
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")

    async with receiver(tmp_path) as where:
        here = {":8000": f":{port}", ":9000": f":{where}", ".procession": str(home)}
        shown = await page.typed("", tmp_path, here, times=2)

    assert shown == page.shows * 2
    asked = (tmp_path / "said").read_text()
    assert asked.count("204 /i-1?total=EUR%201%2C250.50&due=24%20Dec%202026 ") == 2


async def test_the_mirror_of_the_api_page_sees_a_run_change(command, home, port, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", Page("api.md").text, re.DOTALL)
    (tmp_path / "mirror.py").write_text(code)
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")
    key = (home / "key").read_text().strip()

    mirror = await asyncio.create_subprocess_exec(
        *(sys.executable, "mirror.py", f"http://127.0.0.1:{port}", key),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(20):
        line = await mirror.stdout.readline()
    mirror.kill()
    await mirror.wait()

    assert line.decode().split()[1:] == ["hello", "Succeeded"]


async def test_the_quick_start_goes_as_it_says_a_second_time_too(command, home, port, tmp_path):
    page = Page("quick-start.md")
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")
    here = {
        "make run": f"make --dry-run --no-print-directory --directory {DOCS.parent} run > started",
        ".venv/bin/": f"{COMMANDS}/",
        ".procession": home,
        ":8000": f":{port}",
    }

    shown = await page.typed(elsewhere(home, port), tmp_path, here, times=2)

    assert shown == page.shows * 2
    assert (tmp_path / "started").read_text().endswith("bin/procession up \n")


@pytest.mark.parametrize("name", ["halt.md", "compensation.md"])
async def test_a_guide_to_chains_shows_what_it_says_a_second_time_too(
    command, home, port, tmp_path, name
):
    page = Page(name)
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until("is up. Ctrl-C stops it.")

    async with receiver(tmp_path) as where:
        here = {
            ".venv/bin/": f"{COMMANDS}/",
            ".procession": home,
            ":8000": f":{port}",
            ":9000": f":{where}",
        }
        shown = await page.typed(elsewhere(home, port), tmp_path, here, times=2)

    assert shown == page.shows * 2


async def test_every_command_of_the_page_on_the_command_line_shows_what_it_says(
    command, home, port, tmp_path
):
    page = Page("cli.md")
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")  # the sample is there, too

    shown = await page.typed(elsewhere(home, port), tmp_path, {".venv/bin/": f"{COMMANDS}/"})

    assert shown == page.shows


async def test_a_secret_that_is_made_as_the_page_on_webhooks_says_signs(tmp_path):
    ((secret,),) = await Page("webhooks.md").typed("", tmp_path, {})

    assert [len(key) for key in keys_of(secret)] == [32]


async def test_the_script_of_the_page_on_the_client_says_what_it_says(
    command, home, port, tmp_path
):
    page = Page("client.md")
    ((script, shows),) = re.findall(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", page.text, re.DOTALL
    )
    script = script.replace(":8000", f":{port}").replace(".procession", str(home))
    (tmp_path / "article.py").write_text(script)
    up = await command("procession", "up", "--data", home, "--port", port)
    await up.until("curl '")  # the sample is there, too

    typed = await asyncio.create_subprocess_exec(
        *(sys.executable, "article.py"), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await typed.communicate()

    assert said.decode() == shows
