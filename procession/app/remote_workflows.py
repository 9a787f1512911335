"""`procession workflows`: looked at, applied from files, switched, and started by hand."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

from procession.app.plain import plain
from procession.app.refusal import ArgumentError
from procession.app.remote import at, calling, found, show, table, workflow_id
from procession.app.start import refusing
from procession.client import Client
from procession.client.shapes import Workflow

HEADS = ("ID", "NAME", "VERSION", "ENABLED", "TRIGGERS", "UPDATED")


@refusing()
def list_workflows(given: argparse.Namespace) -> None:
    """All of them, by name."""
    with calling(given) as client:
        workflows = list(client.workflows.all())
        show(given, workflows, table(HEADS, map(_row, workflows)))


def _row(one: Workflow) -> tuple[object, ...]:
    enabled = "yes" if one.enabled else "no"
    return one.id, one.name, one.version, enabled, _triggers(one), at(one.updated_at)


def _triggers(one: Workflow) -> str:
    return f"{','.join(one.trigger_content_types)}: {','.join(one.trigger_events)}"


@refusing()
def show_workflow(given: argparse.Namespace) -> None:
    """One of them. What --json prints may be applied again."""
    with calling(given) as client:
        workflow = found(client, given.workflow)
        show(given, workflow, _told(workflow))


def _told(one: Workflow) -> Iterator[str]:
    state = "enabled" if one.enabled else "disabled"
    yield f"{one.name}: version {one.version}, {state}"
    yield f"  id        {one.id}"
    yield f"  triggers  {_triggers(one)}"
    for name, value in one.conditions.items():
        yield f"  if        {name} is {value}"
    for ordinal, action in enumerate(one.actions):
        yield f"  action {ordinal}  {action.get('type')}, on failure {action.get('onFailure')}"
        for name, value in action.get("parameters", {}).items():
            yield f"            {name}: {value}"
        for name in action.get("credentialsSet", ()):
            yield f"            {name}: (kept)"


@refusing()
def apply(given: argparse.Namespace) -> None:
    """Make it as the file says: created, updated, or unchanged."""
    body = _read(given.file)
    with calling(given) as client:
        applied = client.workflows.apply(body)
        workflow = applied.workflow
        warnings = workflow.warnings or []
        told = {"outcome": applied.outcome, "workflow": workflow}
        show(given, told, [f"{workflow.name}: {applied.outcome}, version {workflow.version}"])
        for one in warnings:
            sys.stderr.write(plain(f"warning: {one.field}: {one.message}") + "\n")


def _read(file: Path) -> dict[str, object]:
    """The object in a file, or on standard input for `-`."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        body = json.loads(text, object_pairs_hook=partial(_once, file))
    except OSError as error:
        raise ArgumentError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{file} is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ArgumentError(f"{file} is not JSON: {error.msg}, at {where}") from None
    except (RecursionError, ValueError):
        raise ArgumentError(f"{file} is nested too deep, or has a number too long") from None
    if not isinstance(body, dict):
        raise ArgumentError(f"{file} holds no workflow: an object is wanted")
    return cast("dict[str, object]", body)


def _once(file: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of the file. The last of two of a name would be taken, and the other lost."""
    made = dict[str, object]()
    for name, value in pairs:
        if name in made:
            raise ArgumentError(f"{file} holds the name {json.dumps(name)} twice in one object")
        made[name] = value
    return made


def _switch(does: Callable[[Client, str], Workflow]) -> Callable[[argparse.Namespace], None]:
    @refusing()
    def switched(given: argparse.Namespace) -> None:
        with calling(given) as client:
            workflow = does(client, found(client, given.workflow).id)
            state = "enabled" if workflow.enabled else "disabled"
            show(given, workflow, [f"{workflow.name}: {state}"])

    return switched


enable = _switch(lambda client, one: client.workflows.enable(one))
disable = _switch(lambda client, one: client.workflows.disable(one))


@refusing()
def delete(given: argparse.Namespace) -> None:
    """Delete it, and cancel what of its runs has not happened."""
    with calling(given) as client:
        workflow = found(client, given.workflow)
        client.workflows.delete(workflow.id)
        show(given, {"id": workflow.id, "deleted": True}, [f"{workflow.name}: deleted"])


@refusing()
def run(given: argparse.Namespace) -> None:
    """Queue a run of it for an entry."""
    with calling(given) as client:
        workflow = workflow_id(client, given.workflow)
        started = client.workflows.run(
            workflow, given.entry, given.content_type, given.idempotency_key
        )
        show(given, started, [started.run_id])
