"""The command lines of what calls a Procession elsewhere."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from procession.app.arguments import instant, status, whole

Group = Callable[..., argparse.ArgumentParser]  # its add_parser
RUNS, BULK, WORKFLOWS = (f"procession.app.remote_{one}" for one in ("runs", "bulk", "workflows"))
NUMBER = partial(whole, least=0, most=999_999_999)
WHERE = (
    ("--url", "URL", "where Procession is (default: PROCESSION_URL, or http://127.0.0.1:8000)"),
    ("--key", "KEY", "the key to call it with (default: PROCESSION_KEY, or .procession/key here)"),
    (
        "--tenant",
        "SLUG",
        "with the control token for a key: the tenant (default: PROCESSION_TENANT)",
    ),
)


def runs(top: Group) -> None:
    """`procession runs`."""
    group = _group(top, "runs", "Look at runs, follow them, and command them.")
    listed = _command(group, "list", f"{RUNS}:list_runs", "List runs, the newest first.")
    _filters(listed)
    listed.add_argument("--status", type=status, help="only in this status")
    page, size = partial(NUMBER, least=1), partial(whole, least=1, most=100)
    listed.add_argument("--page", type=page, default=1, help="which part (default: 1)")
    listed.add_argument("--page-size", type=size, default=20, help="1 to 100 (default: 20)")
    for name, does, says in (
        ("show", "show_run", "Show a run with its actions and their attempts."),
        ("cancel", "cancel", "Stop what of a run has not happened."),
        ("abandon", "abandon", "Undo what of a run has happened."),
        ("force-end", "force_end", "End an unfinished run from any state, at once."),
        ("retry", "retry", "Put an action of a run back to due."),
    ):
        one = _command(group, name, f"{RUNS}:{does}", says)
        one.add_argument("run", metavar="RUN", help="its id")
        if name == "retry":
            told = "default: the first that has failed, or waits after a failure"
            one.add_argument("--action", type=NUMBER, metavar="N", help=told)
    says = "Follow a run to its end (0 if it succeeded, else 1), or all of them."
    watch = _command(group, "watch", f"{RUNS}:watch", says)
    watch.add_argument("run", nargs="?", metavar="RUN", help="its id (default: all runs)")
    _bulk(_group(group, "bulk", "Retry, cancel or abandon many runs."))


def _bulk(group: Group) -> None:
    for verb, says, meant in (
        ("retry", "Retry what has failed of many runs.", "Failed and PartiallyFailed"),
        ("cancel", "Cancel many runs.", "Pending and Running"),
        ("abandon", "Abandon many runs.", "Failed and PartiallyFailed"),
    ):
        many = _command(group, verb, f"{BULK}:perform", says)
        many.set_defaults(verb=verb, unknown=False)
        _chosen(many, meant)
        if verb == "retry":
            told = "also what may have happened already"
            many.add_argument("--unknown", action="store_true", help=told)
        many.add_argument("--dry-run", action="store_true", help="count them, and do nothing")
        many.add_argument("--yes", action="store_true", help="do not ask whether that is meant")
    _command(group, "list", f"{BULK}:list_bulks", "List what was asked for, the newest first.")
    stop = _command(group, "stop", f"{BULK}:stop", "Leave what is not done yet undone.")
    stop.add_argument("bulk", metavar="ID", help="as the list shows it")


def _chosen(many: argparse.ArgumentParser, meant: str) -> None:
    """Which runs; without a status those that stand as `meant` says."""
    _filters(many)
    says = f"only in this status; may be given again (default: {meant})"
    many.add_argument("--status", type=status, action="append", help=says)
    says = "such as 2027-01-31T12:00, in UTC"
    many.add_argument("--created-from", type=instant, metavar="TIME", help=says)
    many.add_argument("--created-before", type=instant, metavar="TIME", help="the same")


def workflows(top: Group) -> None:
    """`procession workflows`."""
    group = _group(top, "workflows", "Look at workflows, apply, switch and start them.")
    _command(group, "list", f"{WORKFLOWS}:list_workflows", "List the workflows, by name.")
    for name, says in (
        ("show", "Show a workflow."),
        ("enable", "Switch a workflow on."),
        ("disable", "Switch a workflow off; a worker cancels what waits of its runs."),
        ("delete", "Delete a workflow, and cancel what of its runs has not happened."),
        ("run", "Queue a run of a workflow for an entry."),
    ):
        does = "show_workflow" if name == "show" else name
        one = _command(group, name, f"{WORKFLOWS}:{does}", says)
        one.add_argument("workflow", metavar="WORKFLOW", help="its id or its name")
        if name == "run":
            one.add_argument("entry", metavar="ENTRY", help="the id of the entry")
            one.add_argument("--content-type", help="where several hold an entry of this id")
            told = "makes one run, however often it is said"
            one.add_argument("--idempotency-key", metavar="KEY", help=told)
    says = "Make a workflow as a file says, by its name: created, updated or left unchanged."
    applied = _command(group, "apply", f"{WORKFLOWS}:apply", says)
    applied.add_argument("file", type=Path, metavar="FILE", help="of JSON; - is standard input")


def _group(within: Group, name: str, says: str) -> Group:
    made = within(name, help=says, description=says)
    return made.add_subparsers(title="commands", metavar="COMMAND", required=True).add_parser


def _command(group: Group, name: str, does: str, says: str) -> argparse.ArgumentParser:
    made = group(name, help=says, description=says)
    made.set_defaults(does=does)
    for option, takes, told in WHERE:
        made.add_argument(option, metavar=takes, help=told)
    made.add_argument("--json", action="store_true", help="print what was answered, as JSON")
    return made


def _filters(made: argparse.ArgumentParser) -> None:
    made.add_argument("--workflow", help="only of the workflow of this id or name")
    made.add_argument("--entry", help="only of the entry of this id")
    made.add_argument("--content-type", help="only of entries of this content type")
