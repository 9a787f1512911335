"""The commands that call a Procession elsewhere: where it is, and how answers are shown.

Tables for people, `--json` for programs. Whatever goes wrong is a line on standard error, and the
status that `app.cli` promises.
"""

import argparse
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from procession.app.plain import plain, plain_json
from procession.app.refusal import ArgumentError, RefusalError
from procession.app.say import leave, say
from procession.client import Client, ClientError, RefusedError
from procession.client.shapes import Workflow

URL, KEY, TENANT = "PROCESSION_URL", "PROCESSION_KEY", "PROCESSION_TENANT"
HERE = "http://127.0.0.1:8000"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOCAL_KEY = Path(".procession/key")  # where `procession up` keeps one


@contextmanager
def calling(given: argparse.Namespace) -> Generator[Client]:
    """A client of the Procession that the command line or the environment names."""
    url = given.url or os.environ.get(URL) or HERE
    try:
        with Client(url, _key(given, url), tenant=given.tenant or os.environ.get(TENANT)) as made:
            yield made
    except ClientError as error:
        raise RefusalError(f"{error}") from None
    except BrokenPipeError:  # whoever read has had enough
        leave()


def _key(given: argparse.Namespace, url: str) -> str:
    if key := given.key or os.environ.get(KEY):
        return key
    if _is_here(url) and LOCAL_KEY.is_file():
        return _local_key()
    raise ArgumentError(
        f"No key: give --key, or set {KEY}. `procession up` keeps one in {LOCAL_KEY}."
    )


def _local_key() -> str:
    try:
        return LOCAL_KEY.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ArgumentError(f"{LOCAL_KEY} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{LOCAL_KEY} holds no key") from None


def _is_here(url: str) -> bool:
    """Whether it is on this machine, by an address that leads nowhere else."""
    try:
        return urlsplit(url).hostname in LOOPBACK
    except ValueError:
        return False


def found(client: Client, named: str) -> Workflow:
    """The workflow of this id, or of this name."""
    if is_id(named):
        return client.workflows.get(named)
    workflow = client.workflows.named(named)
    if workflow is None:
        raise RefusalError(f"There is no workflow {named}.")
    return workflow


def workflow_id(client: Client, named: str) -> str:
    """The id of the workflow; only for a name it is looked up, which not everybody may."""
    if is_id(named):
        return named
    try:
        return found(client, named).id
    except RefusedError as error:
        if error.code != "forbidden":
            raise
        needed = error.problem.get("capability")
        says = f"To find a workflow by its name needs {needed}; its id needs nothing more."
        raise RefusalError(says) from None


def is_id(named: str) -> bool:
    """Whether it names a workflow by its id."""
    try:
        return str(UUID(named)) == named.lower()
    except ValueError:
        return False


def show(given: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """The value for a program, or the lines for a person."""
    if given.json:
        say(plain_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))
    else:
        for line in lines:
            say(plain(line))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines with their columns below one another; nothing but the heads where there are no rows."""
    cells = [[plain(str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def at(moment: datetime | None) -> str:
    """A time to the second, in UTC."""
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
