"""The commands of the pages for who installs, runs and mends it, as they type them."""

import os
import re
import shlex
import shutil
import sys
from urllib.parse import urlsplit

import pytest
from fix_pages import DOCS, Page
from fix_process import COMMANDS, KEYS
from fix_worker import free_port

from procession.app import binaries

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="of the commands with curl"),
]

ROOT = DOCS.parent
ELSEWHERE = "postgresql://procession@db.internal/procession"
# A package that is here already, as if it came from an index; what it needs is here too.
INSTALL = f"{sys.executable} -m pip install --quiet --no-index --no-deps --no-build-isolation"


@pytest.fixture
def shell(fresh):
    """The lines of a shell with the commands at hand, on a database with nothing in it."""

    def lines(port, **variables):
        path = f"{COMMANDS}:{binaries.find()}:{os.environ['PATH']}"
        known = {"PATH": path, "HOST": "127.0.0.1", "PORT": port, "SECRETS__KEYS": KEYS}
        given = known | {"DATABASE_URL": fresh.url} | variables
        return "\n".join(f"export {k}={shlex.quote(str(v))}" for k, v in given.items())

    return lines


@pytest.fixture
def locally(command, home, port):
    """Starts what `make run` starts."""

    async def start():
        up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
        await up.until("is up. Ctrl-C stops it.")

    return start


async def test_the_commands_of_the_page_on_operating_do_what_it_says(
    locally, home, tmp_path, fresh, shell
):
    page = Page("operating.md")
    await locally()
    here = {
        ELSEWHERE: fresh.url,
        "\nprocession api\n": "\ntimeout 10 procession api || true\n",
        ".procession": home,
        ".venv/bin/": f"{COMMANDS}/",
    }

    shown = await page.typed(shell(await free_port()), tmp_path, here)

    first, rekeyed, swept, exported, looked, requeued, local = shown
    assert first[0].startswith("Applied ")
    assert [line for line in first if line.startswith("prc_")]
    assert "Listening on" in first[-2]
    assert "Stopped, as SIGTERM asked" in first[-1]
    assert [len(one) for one in (rekeyed, swept)] == [1, 1]
    assert (tmp_path / "runs.ndjson").read_text() == (tmp_path / "failed.ndjson").read_text() == ""
    assert exported
    assert [line for line in looked if line.startswith("ok ")]
    assert [line for line in requeued if line.startswith("ok ")]
    assert local[0].startswith("prc_")
    assert local[-1] == "(0 rows)"


async def test_the_first_looks_of_the_runbook_tell_how_it_is(command, home, port, tmp_path, shell):
    up = await command("procession", "up", "--data", home, "--port", port, "--no-sample")
    await up.until("is up. Ctrl-C stops it.")
    here = {"worker.internal:8001": f"127.0.0.1:{port}"}
    pid = (home / "postgres" / "postmaster.pid").read_text().splitlines()
    of_up = {
        "DATABASE_URL": f"postgresql://postgres@/postgres?host={pid[4]}",
        "SECRETS__KEYS": (home / "secrets-keys").read_text(),
    }

    (shown,) = await Page("runbook.md").typed(shell(port, **of_up), tmp_path, here)

    assert [line for line in shown if line.startswith("FAILED")] == []
    assert '"ready"' in shown[-1]


async def test_an_upgrade_goes_as_its_page_says_and_back_to_the_backup(
    port, tmp_path, fresh, shell
):
    before = f"{shell(port)}\nprocession migrate > migrated"
    name = f"{urlsplit(fresh.url).path[1:]}_before"
    beside = urlsplit(fresh.url)._replace(path=f"/{name}").geturl()
    here = {
        f"{ELSEWHERE}_before": shlex.quote(beside),
        "create database procession_before": f"create database {name}",
    }
    after = f"\npsql --quiet {shlex.quote(fresh.url)} -c 'drop database {name}'"
    page = Page("upgrading.md")
    page.commands[-1] += f'psql -At "$BEFORE" -c "select count(*) from schema_migration"{after}\n'

    shown = await page.typed(before, tmp_path, here)

    looked, migrated, again, held, restored = shown
    assert re.match(r"\d+\.\d+\.\d+$", looked[0])
    assert migrated == ["Nothing to do"]
    assert [line for line in again if line.startswith("ok ")]
    assert "pid" in held[0]
    assert restored == [str(len(list((ROOT / "procession/migrations").glob("*.sql"))))]


async def test_the_example_and_the_extra_of_the_pages_can_be_installed(tmp_path):
    into = f"{INSTALL} --target {tmp_path / 'packages'}"
    example = {".venv/bin/pip install ./examples/ledger": f"{into} {ROOT / 'examples/ledger'}"}
    extra = {"pip install 'procession[tracing]'": f"{INSTALL} --dry-run '{ROOT}[tracing]'"}

    shown = await Page("actions.md").typed("", tmp_path, example)
    shown += await Page("metrics.md").typed("", tmp_path, extra)

    assert [line for block in shown for line in block if "ERROR" in line] == []
    assert list(tmp_path.glob("packages/procession_ledger/__init__.py"))


async def test_a_setting_that_is_refused_is_refused_in_the_words_of_the_page(tmp_path, shell):
    page = Page("settings.md")

    assert await page.typed(shell(""), tmp_path, {}) == page.shows
