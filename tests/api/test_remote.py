"""The commands that call a Procession elsewhere, as they are typed."""

import json

import pytest
from fix_api import add_key
from fix_remote import FLOW
from fix_runs import add_run, add_workflow
from fix_worker import free_port

from procession.app.remote_runs import NEVER
from procession.engine.run import Action, Status

FAILED = Action(status=Status.FAILED, attempts=1, failures=1, retryable=False)
BEHIND = Action(status=Status.SKIPPED, halted_by=0)
NOWHERE = {"PROCESSION_URL": "http://127.0.0.1:9"}


@pytest.fixture
async def run_id(conn):
    """A run that has failed."""
    return await add_run(conn, await add_workflow(conn), FAILED, BEHIND)


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "announce.json"
    made.write_text(json.dumps(FLOW))
    return made


async def test_runs_are_listed_as_a_table_and_as_json(remote, run_id):
    out, err, status = await remote.type("runs", "list", "--status", "failed")
    listed, _, _ = await remote.type("runs", "list", "--json")

    heads, line, empty, total = out.splitlines()
    assert (err, status) == ("", 0)
    assert heads.split() == ["ID", "STATUS", "WORKFLOW", "ENTRY", "TRIGGER", "CREATED"]
    assert line.startswith(f"{run_id}  Failed  Announce article  Article/a-17  Published  2020-")
    assert (empty, total) == ("", "1 run")
    assert [one["id"] for one in json.loads(listed)["items"]] == [str(run_id)]


async def test_nothing_to_list_is_said(remote):
    out, _, status = await remote.type("runs", "list", "--entry", "none")

    assert status == 0
    assert out.splitlines()[-1] == "0 runs"


ODD = "\x1b[31mRed\x1b]0;t\x07\u202e\x9b\n\u2028\t日本 é"
FIT = r"\x1b[31mRed\x1b]0;t\x07\u202e\x9b\n\u2028\t日本 é"
UNFIT = ("\x1b", "\x07", "\u202e", "\x9b", "\u2028", "\t")


async def test_no_text_from_elsewhere_reaches_the_terminal_as_more_than_text(
    remote, conn, tmp_path
):
    run = await add_run(conn, await add_workflow(conn), FAILED, BEHIND)
    await conn.execute("update run set workflow_name = %s", [ODD])
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps(FLOW | {"name": ODD, f"a{ODD}": 1}))

    typed = [
        await remote.type(*line)
        for line in (
            ("workflows", "apply", odd),
            ("workflows", "list"),
            ("workflows", "show", ODD),
            ("workflows", "disable", ODD),
            ("runs", "list"),
            ("runs", "show", run),
            ("runs", "watch", run),
            ("runs", "list", "--workflow", ODD + ODD),
            ("workflows", "list", "--json"),
        )
    ]

    shown = [f"{out}{err}" for out, err, _ in typed]
    assert [one for one in shown if any(sign in one for sign in UNFIT)] == []
    assert [one for one in shown[:7] if FIT not in one] == []
    assert "\\x1b[31mRed" in typed[7][1]
    assert ODD in {one["name"] for one in json.loads(shown[8])}


async def test_a_run_is_shown_retried_and_cancelled(remote, run_id):
    shown, _, _ = await remote.type("runs", "show", run_id)
    retried, _, _ = await remote.type("runs", "retry", run_id)
    cancelled, _, status = await remote.type("runs", "cancel", run_id, "--json")

    assert shown.splitlines()[0] == "Announce article (version 1): Failed"
    assert "  1 Webhook: Skipped, halted by 0" in shown.splitlines()
    assert retried.splitlines()[0] == "Announce article (version 1): Pending"
    assert (json.loads(cancelled)["status"], status) == ("Cancelled", 0)


async def test_a_watched_run_ends_the_command_by_how_it_ended(remote, conn, run_id):
    good = await add_run(conn, await add_workflow(conn), *[Action(status=Status.SUCCEEDED)] * 2)

    out, _, failed = await remote.type("runs", "watch", run_id)
    _, _, succeeded = await remote.type("runs", "watch", good)

    assert (failed, succeeded) == (1, 0)
    assert "Failed  Announce article  Article/a-17  0:Failed 1:Skipped" in out


TOUCH = "update run set updated_at = clock_timestamp(), workflow_name = %s where id = %s"


async def test_a_run_is_watched_as_json_a_line_for_each_change(remote, run_id):
    out, _, status = await remote.type("runs", "watch", run_id, "--json")

    assert status == 1
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["Failed"]


async def test_what_changed_after_the_end_of_time_says_where_now_is(remote, conn, run_id):
    (page,) = await remote.do(lambda client: list(client.runs.changed(NEVER)))
    await conn.execute(TOUCH, ["Now", run_id])

    (after,) = await remote.do(lambda client: list(client.runs.changed(page.cursor)))

    assert page.items == []
    assert [run.id for run in after.items] == [str(run_id)]


async def test_a_file_is_applied_and_applied_again(remote, file):
    first, _, _ = await remote.type("workflows", "apply", file)
    again, _, _ = await remote.type("workflows", "apply", file)
    file.write_text(json.dumps(FLOW | {"triggerEvents": ["Created"], "colour": "red"}))
    changed, warned, status = await remote.type("workflows", "apply", file)

    assert first == "Announce: created, version 1\n"
    assert again == "Announce: unchanged, version 1\n"
    assert (changed, status) == ("Announce: updated, version 2\n", 0)
    assert warned.startswith("warning: colour: ")


@pytest.fixture
def kept(remote, tmp_path, monkeypatch):
    """A folder with the key that `procession up` keeps, to call from."""
    (tmp_path / ".procession").mkdir()
    (tmp_path / ".procession" / "key").write_text(f"{remote.key}\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
async def test_the_key_of_the_folder_serves_an_address_on_this_machine(remote, host):
    url = remote.url.replace("127.0.0.1", host)

    _, err, status = await remote.type("runs", "list", PROCESSION_URL=url, PROCESSION_KEY="")

    assert (err, status) == ("", 0)


@pytest.mark.usefixtures("kept")
async def test_the_key_of_the_folder_serves_the_address_of_this_machine_in_ipv6(remote):
    url = f"http://[::1]:{await free_port()}"

    _, err, status = await remote.type("runs", "list", PROCESSION_URL=url, PROCESSION_KEY="")

    assert (err, status) == (f"procession: {url} does not answer (ConnectError)\n", 1)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    "url",
    [
        *("http://procession.example.com", "http://10.0.0.7", "http://127.0.0.1@example.com"),
        *("http://127.0.0.1.a.com", "http://localhost.a.com", "http://[::1", "127.0.0.1:8000"),
    ],
)
async def test_the_key_of_the_folder_goes_nowhere_else(remote, url):
    _, err, status = await remote.type("runs", "list", PROCESSION_URL=url, PROCESSION_KEY="")

    assert err.startswith("procession: No key: give --key, or set PROCESSION_KEY.")
    assert status == 2


async def test_a_workflow_is_named_to_show_switch_start_and_delete_it(remote, file):
    await remote.type("workflows", "apply", file)
    await remote.do(lambda client: client.entries.save("Article", "a-1", {"Title": "One"}))

    listed, _, _ = await remote.type("workflows", "list")
    shown, _, _ = await remote.type("workflows", "show", "Announce")
    off, _, _ = await remote.type("workflows", "disable", "Announce")
    refused, why, status = await remote.type("workflows", "run", "Announce", "a-1")
    on, _, _ = await remote.type("workflows", "enable", "Announce")
    started, _, _ = await remote.type("workflows", "run", "Announce", "a-1")
    gone, _, _ = await remote.type("workflows", "delete", "Announce")

    assert "Announce  1        yes      Article: Published" in listed
    assert shown.splitlines()[0] == "Announce: version 1, enabled"
    assert (off, on, gone) == ("Announce: disabled\n", "Announce: enabled\n", "Announce: deleted\n")
    assert (refused, status) == ("", 1)
    assert "(409 workflow-disabled)" in why
    assert len(started.strip()) == 36


async def test_what_json_shows_may_be_applied(remote, file, tmp_path):
    await remote.type("workflows", "apply", file)
    shown, _, _ = await remote.type("workflows", "show", "Announce", "--json")
    copy = tmp_path / "copy.json"
    copy.write_text(shown)

    out, err, _ = await remote.type("workflows", "apply", copy)

    assert (out, err) == ("Announce: unchanged, version 1\n", "")


async def test_who_may_not_read_workflows_names_one_by_its_id(remote, conn, file):
    await remote.type("workflows", "apply", file)
    await remote.do(lambda client: client.entries.save("Article", "a-1", {"Title": "One"}))
    flow = await remote.do(lambda client: client.workflows.named("Announce").id)
    operator = {"PROCESSION_KEY": await add_key(conn, "default", "Operator")}
    lines = [
        ("workflows", "run", "{}", "a-1"),
        ("runs", "list", "--workflow", "{}"),
        ("runs", "bulk", "retry", "--dry-run", "--workflow", "{}"),
    ]

    def typed(named):
        return [[one.format(named) for one in line] for line in lines]

    by_id = [await remote.type(*line, **operator) for line in typed(flow)]
    by_name = [await remote.type(*line, **operator) for line in typed("Announce")]

    assert [(err, status) for _, err, status in by_id] == [("", 0)] * 3
    assert "1 run" in by_id[1][0]
    assert by_id[2][0] == "0 runs to retry\n"
    says = "To find a workflow by its name needs manage_workflows; its id needs nothing more."
    assert by_name == [("", f"procession: {says}\n", 1)] * 3


async def test_many_runs_are_counted_and_nothing_is_done_without_a_yes(remote, run_id):
    line = ("runs", "bulk", "retry", "--workflow", "Announce article")
    del run_id
    counted, _, _ = await remote.type("runs", "bulk", "retry", "--entry", "a-17", "--dry-run")
    _, why, status = await remote.type("runs", "bulk", "retry", "--entry", "a-17")

    assert counted == "1 run to retry\n"
    assert (why, status) == ("procession: 1 run to retry: say --yes to do it\n", 2)
    assert (await remote.type(*line, "--dry-run"))[0] == "1 run to retry\n"


@pytest.mark.parametrize(
    ("line", "variables", "says", "ends"),
    [
        (["runs", "list"], NOWHERE, "http://127.0.0.1:9 does not answer (ConnectError)", 1),
        (["runs", "list"], {"PROCESSION_KEY": "prc_x"}, "(401 unauthenticated)", 1),
        (["runs", "list"], {"PROCESSION_URL": "nonsense"}, "", 1),
        (["runs", "list", "--tenant", "globex"], {}, "(403 tenant-mismatch)", 1),
        (["runs", "show", "5f0c1d2e-8a4b-4c6d-9e0f-112233445566"], {}, "(404 run-not-found)", 1),
        (["runs", "show", "x"], {}, "  id: must be a UUID", 1),
        (["workflows", "show", "Nobody"], {}, "There is no workflow Nobody.", 1),
        (["workflows", "apply", "/nowhere.json"], {}, "/nowhere.json cannot be read: No such", 2),
        (["runs", "bulk", "cancel"], {}, "Say which runs: --workflow", 2),
        (["runs", "list", "--page", "0"], {}, "argument --page: takes an integer from 1", 2),
        (["runs", "list", "--page-size", "101"], {}, "takes an integer from 1 to 100, not 101", 2),
        (["runs", "list", "--status", "99"], {}, "argument --status: takes one of Pending", 2),
    ],
    ids=lambda one: " ".join(one)[:40] if isinstance(one, list) else "",
)
async def test_what_goes_wrong_is_a_line_and_a_status(remote, line, variables, says, ends):
    out, err, status = await remote.type(*line, **variables)

    assert (out, status) == ("", ends)
    assert says in err
    assert err.startswith("procession")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{", "is not JSON: "),
        (b"[]", "holds no workflow: an object is wanted"),
        (b"\xff", "is not UTF-8"),
        (b'{"name": "A", "name": "B"}', 'holds the name "name" twice in one object'),
        (b'{"conditions": {"a": 1, "a": 1}}', 'holds the name "a" twice in one object'),
    ],
)
async def test_a_file_that_is_none_is_told(remote, file, text, says):
    file.write_bytes(text)

    _, err, status = await remote.type("workflows", "apply", file)

    assert status == 2
    assert err.startswith(f"procession: {file} {says}")


async def test_a_workflow_with_faults_is_told_with_each_of_them(remote, file):
    file.write_text(json.dumps(FLOW | {"triggerEvents": ["Exploded"], "actions": []}))

    _, err, status = await remote.type("workflows", "apply", file)

    first, *faults = err.splitlines()
    assert (first, status) == ("procession: The request is not valid (400 validation-failed).", 1)
    assert [one.split(":")[0].strip() for one in faults] == ["actions", "triggerEvents[0]"]


async def test_without_a_key_the_command_says_where_one_is(remote, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    _, err, status = await remote.type("runs", "list", PROCESSION_KEY="")

    assert status == 2
    assert err.startswith("procession: No key: give --key, or set PROCESSION_KEY.")
