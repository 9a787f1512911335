"""`procession runs bulk`: counted, asked about, and followed to its end."""

import argparse
import sys

from procession.app.refusal import ArgumentError, RefusalError
from procession.app.remote import at, calling, show, table, workflow_id
from procession.app.say import say
from procession.app.start import refusing
from procession.client.runs import Chosen
from procession.client.shapes import Bulk

NARROWING = ("--workflow", "--entry", "--content-type", "--status", "--created-from")
HEADS = ("ID", "VERB", "STATUS", "MATCHED", "DONE", "CHANGED", "ASKED")


@refusing()
def perform(given: argparse.Namespace) -> None:
    """Count; ask whether that is meant; have it done; tell how far it has come."""
    with calling(given) as client:
        chosen: Chosen = {
            "status": given.status,
            "workflow_id": given.workflow and workflow_id(client, given.workflow),
            "entry_id": given.entry,
            "content_type": given.content_type,
            "created_from": given.created_from,
            "created_before": given.created_before,
        }
        if all(value is None for value in chosen.values()):
            raise ArgumentError(f"Say which runs: {', '.join(NARROWING)} or --created-before")
        matched = client.runs.bulk.count(given.verb, **chosen)
        if given.dry_run:
            show(given, {"matched": matched}, [f"{_runs(matched)} to {given.verb}"])
            return
        _agree(given, matched)
        asked = client.runs.bulk.ask(given.verb, unknown=given.unknown, **chosen)
        ended = asked
        for ended in client.runs.bulk.follow(asked.id):
            if not given.json:
                say(_progress(ended))
        show(given, ended, _refused(ended))


def _agree(given: argparse.Namespace, matched: int) -> None:
    """Go on only if the person says so, or has said so before."""
    if given.yes:
        return
    if not sys.stdin.isatty():
        raise ArgumentError(f"{_runs(matched)} to {given.verb}: say --yes to do it")
    sys.stderr.write(f"{given.verb.capitalize()} {_runs(matched)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusalError("Nothing was done.")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _progress(standing: Bulk) -> str:
    return (
        f"{standing.status}: {standing.done} of {standing.matched} done,"
        f" {standing.changed} changed, {sum(standing.refused.values())} refused"
    )


def _refused(ended: Bulk) -> list[str]:
    return [f"  {count} refused: {code}" for code, count in sorted(ended.refused.items())]


@refusing()
def list_bulks(given: argparse.Namespace) -> None:
    """What was asked for, the newest first."""
    with calling(given) as client:
        page = client.runs.bulk.page()
        rows = (
            (one.id, one.verb, one.status, one.matched, one.done, one.changed, at(one.created_at))
            for one in page.items
        )
        show(given, page, table(HEADS, rows))


@refusing()
def stop(given: argparse.Namespace) -> None:
    """Leave what is not done yet undone."""
    with calling(given) as client:
        stopped = client.runs.bulk.stop(given.bulk)
        show(given, stopped, [_progress(stopped)])
