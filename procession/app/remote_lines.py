"""The command lines of what calls a Procession elsewhere."""

import argparse
from collections.abc import Callable
from pathlib import Path

from procession.app.arguments import instant, status, whole

Make = Callable[..., argparse.ArgumentParser]  # the add_parser of a group of commands
RUNS, BULK, WORKFLOWS = (f"procession.app.remote_{one}" for one in ("runs", "bulk", "workflows"))
MOST = 100  # items of a page
WHERE = (
    ("--url", "URL", "where Procession is (default: PROCESSION_URL, or http://127.0.0.1:8000)"),
    ("--key", "KEY", "the key to call it with (default: PROCESSION_KEY, or .procession/key here)"),
    (
        "--tenant",
        "SLUG",
        "with the control token for a key: the tenant (default: PROCESSION_TENANT)",
    ),
)


def runs(make: Make) -> None:
    """`procession runs`."""
    add = _group(make, "runs", "Look at runs, follow them, and command them.")
    listed = add("list", f"{RUNS}:list_runs", "List runs, the newest first.")
    _filters(listed)
    listed.add_argument("--status", type=status, help="only in this status")
    listed.add_argument("--page", type=_number, default=1, help="which part (default: 1)")
    listed.add_argument("--page-size", type=_size, default=20, help="1 to 100 (default: 20)")
    for name, says in (
        ("show", "Show a run with its actions and their attempts."),
        ("cancel", "Stop what of a run has not happened."),
        ("abandon", "Undo what of a run has happened."),
        ("force-end", "End an unfinished run from any state, at once."),
        ("retry", "Put an action of a run back to due."),
        ("watch", "Follow a run to its end (0 if it succeeded, else 1), or all of them."),
    ):
        does = {"show": "show_run", "force-end": "force_end"}.get(name, name)
        made = add(name, f"{RUNS}:{does}", says)
        if name == "watch":
            made.add_argument("run", nargs="?", metavar="RUN", help="its id (default: all runs)")
        else:
            made.add_argument("run", metavar="RUN", help="its id")
        if name == "retry":
            made.add_argument(
                "--action", type=_ordinal, metavar="N", help="default: the first that has failed"
            )
    _bulk(add)


Add = Callable[[str, str | None, str], argparse.ArgumentParser]


def _bulk(add: Add) -> None:
    says = "Retry, cancel or abandon many runs."
    within = add("bulk", None, says).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    make = within.add_parser
    for verb, says, none in (
        ("retry", "Retry what has failed of many runs.", "Failed and PartiallyFailed"),
        ("cancel", "Cancel many runs.", "Pending and Running"),
        ("abandon", "Abandon many runs.", "Failed and PartiallyFailed"),
    ):
        made = _command(make, verb, f"{BULK}:perform", says)
        made.set_defaults(verb=verb, unknown=False)
        _filters(made)
        made.add_argument(
            "--status",
            type=status,
            action="append",
            help=f"only in this status; may be given again (default: {none})",
        )
        made.add_argument(
            "--created-from", type=instant, metavar="TIME", help="such as 2027-01-31T12:00, in UTC"
        )
        made.add_argument("--created-before", type=instant, metavar="TIME", help="the same")
        if verb == "retry":
            made.add_argument(
                "--unknown", action="store_true", help="also what may have happened already"
            )
        made.add_argument("--dry-run", action="store_true", help="count them, and do nothing")
        made.add_argument("--yes", action="store_true", help="do not ask whether that is meant")
    _command(make, "list", f"{BULK}:list_bulks", "List what was asked for, the newest first.")
    stop = _command(make, "stop", f"{BULK}:stop", "Leave what is not done yet undone.")
    stop.add_argument("bulk", metavar="ID", help="as the list shows it")


def workflows(make: Make) -> None:
    """`procession workflows`."""
    add = _group(make, "workflows", "Look at workflows, apply, switch and start them.")
    add("list", f"{WORKFLOWS}:list_workflows", "List the workflows, by name.")
    for name, says in (
        ("show", "Show a workflow."),
        ("enable", "Switch a workflow on."),
        ("disable", "Switch a workflow off; a worker cancels what waits of its runs."),
        ("delete", "Delete a workflow, and cancel what of its runs has not happened."),
        ("run", "Queue a run of a workflow for an entry."),
    ):
        does = "show_workflow" if name == "show" else name
        made = add(name, f"{WORKFLOWS}:{does}", says)
        made.add_argument("workflow", metavar="WORKFLOW", help="its id or its name")
        if name == "run":
            made.add_argument("entry", metavar="ENTRY", help="the id of the entry")
            made.add_argument("--content-type", help="where several hold an entry of this id")
            made.add_argument(
                "--idempotency-key", metavar="KEY", help="makes one run, however often it is said"
            )
    says = "Make a workflow as a file says, by its name: created, updated or left unchanged."
    applied = add("apply", f"{WORKFLOWS}:apply", says)
    applied.add_argument("file", type=Path, metavar="FILE", help="of JSON; - is standard input")


def _group(make: Make, name: str, says: str) -> Add:
    within = make(name, help=says, description=says).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    return lambda command, does, told: _command(within.add_parser, command, does, told)


def _command(make: Make, name: str, does: str | None, says: str) -> argparse.ArgumentParser:
    made = make(name, help=says, description=says)
    if does is None:
        return made
    made.set_defaults(does=does)
    for option, takes, told in WHERE:
        made.add_argument(option, metavar=takes, help=told)
    made.add_argument("--json", action="store_true", help="print what was answered, as JSON")
    return made


def _filters(made: argparse.ArgumentParser) -> None:
    made.add_argument("--workflow", help="only of the workflow of this id or name")
    made.add_argument("--entry", help="only of the entry of this id")
    made.add_argument("--content-type", help="only of entries of this content type")


def _number(text: str) -> int:
    return whole(text, 1, 999_999_999)


def _size(text: str) -> int:
    return whole(text, 1, MOST)


def _ordinal(text: str) -> int:
    return whole(text, 0, 999_999_999)
