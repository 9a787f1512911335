"""`procession runs`: looked at, followed, and what a person does to one."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from procession.app.plain import plain, plain_json
from procession.app.refusal import RefusalError
from procession.app.remote import at, calling, show, table, workflow_id
from procession.app.say import say
from procession.app.start import refusing
from procession.client import Client
from procession.client.shapes import Attempt, Run, RunAction

EVERY = 1.0  # seconds between two looks
NEVER = "9999-12-31T23:59:59Z"  # what has changed since then
HEADS = ("ID", "STATUS", "WORKFLOW", "ENTRY", "TRIGGER", "CREATED")


@refusing()
def list_runs(given: argparse.Namespace) -> None:
    """The newest runs."""
    with calling(given) as client:
        page = client.runs.page(
            given.page,
            given.page_size,
            status=given.status,
            workflow_id=given.workflow and workflow_id(client, given.workflow),
            entry_id=given.entry,
            content_type=given.content_type,
        )
        show(given, page, [*table(HEADS, map(_row, page.items)), "", _counted(page.total_items)])


def _row(run: Run) -> tuple[str, ...]:
    entry = f"{run.content_type}/{run.entry_id}"
    return run.id, run.status, run.workflow_name, entry, run.trigger, at(run.created_at)


def _counted(total: int) -> str:
    return f"{total} run{'' if total == 1 else 's'}"


@refusing()
def show_run(given: argparse.Namespace) -> None:
    """One run, each action with its attempts, what they gave, and those of its undo."""
    with calling(given) as client:
        run = client.runs.get(given.run)
        show(given, run, _told(run))


def _told(run: Run) -> Iterator[str]:
    yield f"{run.workflow_name} (version {run.workflow_version}): {run.status}"
    yield f"  run       {run.id}"
    yield f"  entry     {run.content_type}/{run.entry_id}, {run.trigger}"
    yield f"  created   {at(run.created_at)}"
    if run.completed_at:
        yield f"  completed {at(run.completed_at)}"
    if run.compensation:
        yield f"  undone    {run.compensation}"
    if run.waiting:
        until = f" until {at(run.waiting.until)}" if run.waiting.until else ""
        yield f"  waits     {run.waiting.reason}{until}"
    for action in run.actions:
        yield ""
        yield from _action(action)


def _action(action: RunAction) -> Iterator[str]:
    halted = "" if action.halted_by is None else f", halted by {action.halted_by}"
    undone = f", undo {action.compensation}" if action.compensation else ""
    yield f"  {action.ordinal} {action.type}: {action.status}{halted}{undone}"
    yield from _attempts("attempt", action.history)
    for name, value in action.outputs.items():
        yield f"      output {name}  {value}"
    if action.undo:
        yield from _attempts("undo attempt", action.undo.history)


def _attempts(word: str, history: Iterable[Attempt]) -> Iterator[str]:
    for one in history:
        status = f" {one.response_status}" if one.response_status else ""
        error = f" {one.error}" if one.error else ""
        yield f"      {word} {one.attempt}  {at(one.finished_at)}  {one.outcome}{status}{error}"


def _command(does: Callable[[Client, str], Run]) -> Callable[[argparse.Namespace], None]:
    @refusing()
    def done(given: argparse.Namespace) -> None:
        with calling(given) as client:
            run = does(client, given.run)
            show(given, run, _told(run))

    return done


cancel = _command(lambda client, run: client.runs.cancel(run))
abandon = _command(lambda client, run: client.runs.abandon(run))
force_end = _command(lambda client, run: client.runs.force_end(run))


@refusing()
def retry(given: argparse.Namespace) -> None:
    """Put an action back to due: the one that is named, or the first that is to be retried."""
    with calling(given) as client:
        ordinal = given.action
        if ordinal is None:
            ordinal = _to_retry(client.runs.get(given.run))
        run = client.runs.retry(given.run, ordinal)
        show(given, run, _told(run))


def _to_retry(run: Run) -> int:
    """The first that has failed, or else the first that waits after a failure."""
    failed = [one.ordinal for one in run.actions if one.status == "Failed"]
    waits = [one.ordinal for one in run.actions if one.status == "Pending" and one.failures]
    doubtful = [one.ordinal for one in run.actions if one.status == "Unknown"]
    for_good = run.cancelled_at or run.compensation  # no action of it is retried
    if doubtful and not failed + waits and not for_good:
        again = f"to do it once more, say --action {doubtful[0]}"
        raise RefusalError(f"Action {doubtful[0]} is Unknown, so it may have happened: {again}.")
    return next(iter(failed + waits), 0)  # of one that has none, the refusal says what is so


@refusing()
def watch(given: argparse.Namespace) -> None:
    """Follow one run to its end, or all of them for as long as nobody interrupts."""
    tell = _as_json if given.json else _line
    with calling(given) as client:
        if given.run is None:
            _watch_all(client, tell)
        elif _watch_one(client, given.run, tell) != "Succeeded":
            raise SystemExit(1)


def _watch_one(client: Client, run_id: str, tell: Callable[[Run], str]) -> str:
    told = ""
    while True:
        run = client.runs.get(run_id)
        if (line := tell(run)) != told:
            say(told := line)
        if run.completed_at is not None:
            return run.status
        time.sleep(EVERY)


def _watch_all(client: Client, tell: Callable[[Run], str]) -> None:
    """From now on by the clock of those who are asked: nothing has changed since the end of time.

    A run comes again for as long as others may still be written before it, so what was told of is
    known until a look has left it out.
    """
    since, told = NEVER, dict[str, str]()
    while True:
        seen = dict[str, str]()
        for page in client.runs.changed(since):
            for run in page.items:
                seen[run.id] = line = tell(run)
                if told.get(run.id) != line:
                    say(line)
            since = page.cursor or since
        told = seen
        time.sleep(EVERY)


def _as_json(run: Run) -> str:
    return plain_json(msgspec.json.encode(run).decode())


def _line(run: Run) -> str:
    actions = " ".join(f"{one.ordinal}:{one.status}" for one in run.actions)
    entry = f"{run.content_type}/{run.entry_id}"
    words = (at(run.updated_at), run.id, run.status, run.workflow_name, entry, actions)
    return plain("  ".join(words))
