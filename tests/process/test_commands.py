import signal

import pytest
from fix_process import COMMANDS, KEYS
from fix_worker import free_port

from procession.app.local import serve
from procession.queue.migrate import migrations

pytestmark = pytest.mark.slow


@pytest.fixture
def url(home):
    """The address of a server with nothing in it."""
    with serve(home / "postgres") as local:
        yield local.url


async def test_migrate_says_what_it_did(command, url):
    first = await command("procession", "migrate", DATABASE_URL=url)
    await first.ended()
    again = await command("procession", "migrate", DATABASE_URL=url)

    assert await again.ended() == 0
    assert first.said == [f"Applied {one.version:04}_{one.name}" for one in migrations()]
    assert again.said == ["Nothing to do"]


@pytest.mark.parametrize("name", ["api", "worker"])
async def test_a_schema_that_lacks_something_is_refused(command, url, name):
    process = await command("procession", name, DATABASE_URL=url, SECRETS__KEYS=KEYS)

    assert await process.ended() == 1
    (line,) = process.said
    assert line.startswith("procession: The schema lacks 0001_procrastinate_3_10, 0002_procession")
    assert line.endswith("Run `procession migrate`.")


@pytest.mark.parametrize("name", ["api", "worker"])
async def test_a_postgres_that_is_away_at_the_start_is_waited_for(command, home, name):
    with serve(home / "postgres") as local:
        url = local.url
        await (await command("procession", "migrate", DATABASE_URL=url)).ended()
    port = await free_port()
    where = {"DATABASE_URL": url, "HOST": "127.0.0.1", "PORT": port}
    process = await command("procession", name, **where, SECRETS__KEYS=KEYS)
    await process.until("Postgres does not answer")

    with serve(home / "postgres"):
        await process.until("Listening on 127.0.0.1")

        assert await process.stop() == 0


@pytest.mark.parametrize("name", ["api", "worker"])
async def test_a_stop_while_postgres_is_away_is_a_stop(command, name):
    nowhere = f"postgresql://127.0.0.1:{await free_port()}/app"
    process = await command("procession", name, DATABASE_URL=nowhere, SECRETS__KEYS=KEYS)
    await process.until("Postgres does not answer")

    assert await process.stop() == 0


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--tenant", "nobody"], "procession: There is no tenant nobody (--tenant)."),
        (["--role", "Boss"], "procession: There is no role Boss in the tenant default (--role)."),
        (
            ["--expires-at", "2020-01-01T08:00+08:00"],
            "procession: 2020-01-01 00:00:00+00:00 is over already (--expires-at).",
        ),
    ],
)
async def test_a_key_for_what_does_not_exist_is_refused(command, database, options, refusal):
    line = ("procession", "key", "create", "--name", "tests", *options)
    process = await command(*line, DATABASE_URL=database.url)

    assert await process.ended() == 2
    assert process.said == [refusal]


async def test_the_plain_command_refuses_too_many_slots_with_status_two(command, database):
    line = ("procrastinate", "--app", "procession.app.worker.jobs", "worker", "--concurrency", 30)
    process = await command(*line, DATABASE_URL=database.url, SECRETS__KEYS=KEYS)

    assert await process.ended() == 2
    assert process.said[-1] == "procession: --concurrency takes 1 to 20, not 30"
    assert not any("Traceback" in line for line in process.said)


@pytest.mark.parametrize(
    "line",
    [
        (),
        ("up",),
        ("api",),
        ("worker",),
        ("migrate",),
        ("key", "create"),
        ("version",),
        ("runs",),
        *(("runs", one) for one in ("list", "show", "watch", "retry", "cancel", "abandon")),
        ("runs", "force-end"),
        *(("runs", "bulk", one) for one in ("retry", "cancel", "abandon", "list", "stop")),
        ("workflows",),
        *(("workflows", one) for one in ("list", "show", "apply", "enable", "disable")),
        *(("workflows", one) for one in ("delete", "run")),
    ],
)
async def test_each_command_explains_itself(command, line):
    process = await command("procession", *line, "--help")

    assert await process.ended() == 0
    assert process.said[0].startswith("usage: procession")


INT, TERM, HUP = (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)
STOPS = [INT, TERM, HUP]
AWAY = "postgresql://127.0.0.1:1/app"
IMPORTED = ("python", "-X", "importtime", "-m")


@pytest.mark.parametrize("line", [("up",), ("worker",), ("runs", "list")], ids=" ".join)
@pytest.mark.parametrize(
    ("first", "stop"),
    [
        ("argparse", INT),
        ("argparse", TERM),
        ("procession.app.arguments", HUP),
        ("procession.engine", INT),
        ("procession.engine", TERM),
    ],
)
async def test_a_stop_among_the_imports_ends_a_command_without_a_word(
    command, home, first, stop, line
):
    data = ("--data", home) if line == ("up",) else ()
    process = await command(*IMPORTED, "procession", *line, *data, DATABASE_URL=AWAY)
    await process.until(first)

    process.send(stop[0])

    assert await process.ended() == stop[1]
    assert [one for one in process.said if not one.startswith("import time:")] == []


PLAIN = ("procrastinate", "--app", "procession.app.worker.jobs", "worker")


@pytest.mark.parametrize("first", ["procession.app.plain_line", "procession.engine"])
@pytest.mark.parametrize(("number", "status"), STOPS)
async def test_a_stop_among_the_imports_ends_the_plain_command_too(command, number, status, first):
    process = await command(*IMPORTED, *PLAIN, DATABASE_URL=AWAY)
    await process.until(first)

    process.send(number)

    assert await process.ended() == status


NOTED = """
import asyncio, sys
sys.argv = ["procrastinate", "worker"]
async def load():
    asyncio.current_task().cancel()  # as a loop does at Ctrl-C
    import procession.app.worker
    print("goes on")
asyncio.run(load())
"""


async def test_ctrl_c_that_the_plain_command_noted_before_it_came_to_us_ends_it(command):
    process = await command("python", "-c", NOTED)

    assert (await process.ended(), process.said) == (130, [])


@pytest.mark.parametrize(("number", "status"), STOPS)
async def test_a_stop_ends_a_command_that_waits(command, number, status):
    process = await command("procession", "migrate", DATABASE_URL=AWAY)
    await process.until("Trying again")

    process.send(number)

    assert await process.ended() == status


async def test_a_command_that_outlives_its_terminal_is_not_ended_by_that(command):
    line = f"trap '' HUP; exec {COMMANDS / 'procession'} migrate"
    process = await command("/bin/sh", "-c", line, DATABASE_URL=AWAY)
    await process.until("Trying again")

    process.send(signal.SIGHUP)

    await process.until("Trying again")
