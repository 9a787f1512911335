"""The commands of docs/run-lifecycle.md, one after the other as a reader types them, twice."""

import shutil

import pytest
from fix_pages import Page, receiver

pytestmark = pytest.mark.slow


@pytest.mark.skipif(shutil.which("curl") is None, reason="of the commands with curl")
async def test_every_command_of_the_page_shows_what_the_page_says_a_second_time_too(
    command, home, port, tmp_path
):
    page = Page("run-lifecycle.md")
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until("is up. Ctrl-C stops it.")
    key = (home / "key").read_text().strip()

    async with receiver(tmp_path) as where:
        here = {":8000": f":{port}", ":9000": f":{where}"}
        shown = await page.typed(f"KEY={key}", tmp_path, here, seconds=200, times=2)

    assert shown == page.shows * 2
    asked = [line.split() for line in (tmp_path / "said").read_text().splitlines()]
    assert [path for _, path, _ in asked][:4] == ["/reserve", "/invoice", "/invoice", "/ship"]
    assert len({key for _, path, key in asked[:4] if path == "/invoice"}) == 1
    undone = [(path, key[-7:]) for _, path, key in asked if path.endswith("-off")]
    assert undone[:2] == [("/flight-off", "-1-undo"), ("/hotel-off", "-0-undo")]
