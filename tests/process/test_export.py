"""`procession export`: every run as the API shows it; a file that is gone on with lacks none."""

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from fix_process import COMMANDS
from fix_runs import EPOCH, add_attempt, add_run, add_workflow

from procession.engine.run import Action, Status
from procession.queue import archive
from procession.queue.archive import BEGINNING, Chosen, Reached, pages

pytestmark = pytest.mark.slow

DONE = Action(status=Status.SUCCEEDED)
LOST = Action(status=Status.FAILED)


@pytest.fixture
def export(command, database):
    """Runs `procession export` with these options: what it said, and its exit status."""

    async def run(*options, url=database.url):
        process = await command("procession", "export", *options, DATABASE_URL=url)
        status = await process.ended()
        return process.said, status

    return run


async def add(conn, workflow_id, *actions, minutes=0, **more):
    at = EPOCH + timedelta(minutes=minutes)
    times = {"created_at": at, "updated_at": at + timedelta(minutes=1)}
    return str(await add_run(conn, workflow_id, *actions, **times | more))


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_line_is_the_run_as_the_api_shows_it(conn, workflow_id, admin, export, tmp_path):
    waits = await add(conn, workflow_id, LOST, Action(), outputs={0: {"Status": "500"}})
    await add_attempt(conn, waits, 1, error="500 from https://hooks.example.org")
    await add(conn, workflow_id, DONE, DONE, minutes=1)

    said, status = await export("--output", tmp_path / "runs.ndjson")

    assert (said, status) == (["Exported 2 runs of default."], 0)
    for line in read(tmp_path / "runs.ndjson"):
        assert line == (await admin.get(f"/api/workflow-runs/{line['id']}")).json()


async def test_standard_output_has_the_runs_and_nothing_else(conn, workflow_id, export):
    run_id = await add(conn, workflow_id, DONE, DONE)

    said, status = await export()

    assert status == 0
    assert said[-1] == "Exported 1 runs of default."
    assert [json.loads(line)["id"] for line in said[:-1]] == [run_id]


async def test_it_chooses_by_tenant_status_and_end(conn, workflow_id, export, tmp_path):
    theirs = await add_workflow(conn, tenant="acme")
    await add(conn, theirs, DONE, DONE, tenant="acme")
    old = await add(conn, workflow_id, DONE, DONE)
    failed = await add(conn, workflow_id, LOST, LOST)
    await add(conn, workflow_id, DONE, LOST)
    await add(conn, workflow_id)
    await add(conn, workflow_id, DONE, DONE, minutes=60)
    before = (EPOCH + timedelta(minutes=30)).isoformat()

    said, _ = await export(
        *("--status", "succeeded", "--status", "Failed", "--before", before),
        *("--output", tmp_path / "runs"),
    )

    assert said == ["Exported 2 runs of default."]
    assert {one["id"] for one in read(tmp_path / "runs")} == {old, failed}


async def test_a_file_is_gone_on_with_behind_its_last_whole_line(
    conn, workflow_id, export, tmp_path
):
    file = tmp_path / "runs"
    first = [await add(conn, workflow_id, DONE, DONE) for _ in range(4)]
    await export("--output", file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    later = await add(conn, workflow_id, DONE, DONE, minutes=1)

    said, status = await export("--output", file, "--resume")

    assert (said, status) == (["Exported 2 runs of default."], 0)
    assert file.read_bytes().startswith(whole)
    assert sorted(one["id"] for one in read(file)) == sorted([*first, later])


async def test_a_run_that_is_committed_behind_those_that_were_written_is_gone_on_with(
    conn, database, workflow_id, export, tmp_path
):
    async with await psycopg.AsyncConnection.connect(database.conninfo) as slow:
        await slow.execute("set idle_in_transaction_session_timeout = 0")
        late = await add(slow, workflow_id, DONE, DONE)
        younger = await add(conn, workflow_id, DONE, DONE, minutes=50)
        await export("--output", tmp_path / "runs")
        await slow.commit()

    said, _ = await export("--output", tmp_path / "runs", "--resume")

    assert said == ["Exported 1 runs of default."]
    assert [one["id"] for one in read(tmp_path / "runs")] == [younger, late]


FINISH = """
    update run set status = 'Failed', completed_at = %(at)s, updated_at = %(at)s, due_at = null,
                   due_ordinal = null, due_type = null
    where id = %(id)s
"""


@pytest.mark.parametrize("options", [(), ("--status", "Failed"), ("--before", "2021-01-01T00:00")])
async def test_a_run_that_ended_after_a_younger_one_is_gone_on_with(
    conn, workflow_id, export, tmp_path, options
):
    older = await add(conn, workflow_id)
    younger = await add(conn, workflow_id, LOST, LOST, minutes=5)
    await export("--output", tmp_path / "runs", *options)
    await conn.execute(FINISH, {"id": older, "at": EPOCH + timedelta(days=2)})

    said, _ = await export("--output", tmp_path / "runs", *options, "--resume")

    assert said == ["Exported 1 runs of default."]
    lines = read(tmp_path / "runs")
    assert {one["id"] for one in lines} == {older, younger}
    assert (lines[-1]["id"], lines[-1]["status"]) == (older, "Failed")


async def test_a_later_bound_takes_what_the_earlier_one_left_out(
    conn, workflow_id, export, tmp_path
):
    """One that ended early and has changed since stands behind it in the order."""
    day = timedelta(days=1)
    changed = await add(conn, workflow_id, DONE, DONE, updated_at=EPOCH + 9 * day)
    later = await add(conn, workflow_id, DONE, DONE, minutes=5 * 24 * 60)
    file, before = tmp_path / "runs", (EPOCH + 2 * day).isoformat()
    await export("--output", file, "--before", before)

    await export("--output", file, "--resume", "--before", "2021-01-01T00:00")

    assert [one["id"] for one in read(file)] == [changed, later]


async def test_what_is_in_the_file_as_it_stands_is_not_written_again(
    conn, workflow_id, export, tmp_path
):
    for minutes in (0, 300, 350, 355):
        await add(conn, workflow_id, DONE, DONE, minutes=minutes)
    await export("--output", tmp_path / "runs")
    await conn.execute("update run set completed_at = completed_at - interval '1 s'")

    said, _ = await export("--output", tmp_path / "runs", "--resume")

    assert said == ["Exported 0 runs of default."]
    assert len(read(tmp_path / "runs")) == 4


async def test_a_file_that_is_empty_is_gone_on_with_from_the_beginning(
    conn, workflow_id, export, tmp_path
):
    await add(conn, workflow_id, DONE, DONE)
    (tmp_path / "runs").touch()

    assert (await export("--output", tmp_path / "runs", "--resume"))[1] == 0

    assert len(read(tmp_path / "runs")) == 1


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--output", "{}/old"], "{}/old is there (--output). --resume goes on with it."),
        (["--output", "{}/old", "--resume"], "A line of {}/old (--output) is no run."),
        (
            ["--output", "{}/no/where"],
            "Nothing can be written to {}/no/where (--output): No such file or directory.",
        ),
        (["--resume"], "--resume goes on with a file, which --output names."),
        (
            ["--tenant", "nobody", "--output", "{}/new"],
            "There is no tenant nobody (--tenant).",
        ),
    ],
)
async def test_what_cannot_be_exported_is_refused(export, tmp_path, options, refusal):
    (tmp_path / "old").write_text("something\n")

    said, status = await export(*(one.format(tmp_path) for one in options))

    assert (said, status) == ([f"procession: {refusal.format(tmp_path)}"], 2)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "old").read_text() == "something\n"


FULL = ("> /dev/full", "No space left on device")
CLOSED = ("| true", "Broken pipe")


@pytest.mark.parametrize("end", [FULL, CLOSED], ids=lambda end: end[1])
async def test_where_no_more_can_be_written_it_says_how_far_it_came(
    conn, workflow_id, command, database, end
):
    for _ in range(30):
        await add(conn, workflow_id, DONE, DONE)
    line = f"{COMMANDS / 'procession'} export {end[0]}; true"

    process = await command("/bin/sh", "-c", line, DATABASE_URL=database.url)
    await process.ended()

    (said,) = process.said
    assert said.startswith(f"procession: The export stopped ({end[1]}). ")
    assert said.endswith(" runs were written.")


async def test_pages_give_every_run_once_whatever_shares_its_time(conn, workflow_id, monkeypatch):
    monkeypatch.setattr(archive, "PAGE", 3)
    added = [await add(conn, workflow_id, DONE, DONE, minutes=i // 5) for i in range(14)]

    found = [page async for page in pages(conn, "default", Chosen(), Reached())]

    assert [len(page) for page in found] == [3, 3, 3, 3, 2]
    read = [one for page in found for one in page]
    assert sorted(str(one.id) for one in read) == sorted(added)
    assert [one.updated_at for one in read] == sorted(one.updated_at for one in read)


MANY = """
    insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                     entry_id, trigger, status, created_at, updated_at, completed_at, actions)
    select tenant, gen_random_uuid(), workflow_id, 1, workflow_name, content_type, 'e-' || i,
           trigger, 'Succeeded', created_at + i * interval '1 s', created_at + i * interval '1 s',
           created_at, actions
    from run, generate_series(1, 5000) as i
"""


async def test_a_page_is_read_along_the_index_of_changes(conn, workflow_id):
    await add(conn, workflow_id, DONE, DONE)
    await conn.execute(MANY)
    await conn.execute("analyze run")
    chosen = Chosen(ended_before=datetime.now(UTC))
    wanted = {"tenant": "default", "limit": 3, "at": BEGINNING, "behind": Reached().id}

    cursor = await conn.execute(f"explain {archive.NEXT}", wanted | dict(chosen.values))

    plan = "\n".join([row[0] for row in await cursor.fetchall()])
    assert "using run_changes" in plan
    assert "Sort Key: run_1" not in plan
