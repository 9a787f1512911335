"""`procession export`: runs with their history, a JSON object a line, as the API shows each.

A file that was left half written is gone on with behind its last whole line. On standard output
there are the runs and nothing else; what came of it is said on standard error.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import msgspec

from procession.api.runs import viewed
from procession.app.commands import PATIENCE
from procession.app.refusal import ArgumentError, RefusalError
from procession.app.settings import Settings
from procession.app.start import arrive_and_check, begin, refusing, run
from procession.queue.access import knows_tenant
from procession.queue.archive import Chosen, Reached, pages
from procession.queue.outage import OUTAGES
from procession.queue.pool import make_pool


@dataclass(slots=True)
class Out:
    """Where the runs go, behind what is there already."""

    file: BinaryIO
    reached: Reached
    count: int = 0


class Line(msgspec.Struct, rename="camel"):
    """What a line says of where it stands."""

    id: UUID
    created_at: datetime


@refusing()
def main(given: argparse.Namespace) -> None:
    """`procession export`."""
    if given.resume and given.output is None:
        raise ArgumentError("--resume goes on with a file, which --output names.")
    count = run(_exported(begin("export"), given))
    sys.stderr.write(f"Exported {count} runs of {given.tenant}.\n")


async def _exported(settings: Settings, given: argparse.Namespace) -> int:
    await arrive_and_check(settings.database, asyncio.Event(), PATIENCE)
    chosen = Chosen(statuses=tuple(given.status), ended_before=given.before)
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        if not await knows_tenant(conn, given.tenant):
            raise ArgumentError(f"There is no tenant {given.tenant} (--tenant).")
        with _opened(given.output, resume=given.resume) as out, _told(given.output, out):
            async for page in pages(conn, given.tenant, chosen, out.reached):
                for view in await viewed(conn, page):
                    out.file.write(view.model_dump_json(by_alias=True).encode() + b"\n")
                    out.count += 1
            out.file.flush()
    return out.count


@contextmanager
def _told(path: Path | None, out: Out) -> Generator[None]:
    """Say how far it came, when it comes no further."""
    try:
        yield
    except OSError as error:
        if path is None:  # what is left of it would be written at the exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        why = os.strerror(error.errno or 0)
    except OUTAGES as error:
        why = type(error).__name__
    else:
        return
    further = " --resume goes on behind them." if path else ""
    raise RefusalError(f"The export stopped ({why}). {out.count} runs were written.{further}")


@contextmanager
def _opened(path: Path | None, *, resume: bool) -> Generator[Out]:
    if path is None:
        yield Out(sys.stdout.buffer, Reached())
        return
    try:
        with path.open("r+b" if resume else "xb") as file:
            yield Out(file, _reached(file, path) if resume else Reached())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ArgumentError(f"{path} is there (--output). --resume goes on with it.") from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ArgumentError(f"Nothing can be written to {path} (--output): {why}.") from None


def _reached(file: BinaryIO, path: Path) -> Reached:
    """What the last whole line holds; what follows it is cut off."""
    last, end = b"", 0
    for line in file:
        if line.endswith(b"\n"):
            last, end = line, end + len(line)
    file.seek(end)
    file.truncate()
    if not last:
        return Reached()
    try:
        found = msgspec.json.decode(last, type=Line)
    except msgspec.MsgspecError:
        raise ArgumentError(f"The last line of {path} (--output) is no run.") from None
    return Reached(found.created_at, found.id)
