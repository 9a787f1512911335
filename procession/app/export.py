"""`procession export`: runs with their history, a JSON object a line, as the API shows each.

A file is gone on with behind its last whole line: by what has changed since, or was committed late,
and is not in it as it stands now. On standard output there are the runs and nothing else; what came
of it is said on standard error.
"""

import argparse
import asyncio
import os
import sys
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from procession.queue.archive import BEGINNING, MARGIN, Chosen, Reached, pages
from procession.queue.outage import OUTAGES
from procession.queue.pool import make_pool

As = tuple[UUID, datetime]  # a run as it stood since then


@dataclass(frozen=True, slots=True)
class Tail:
    """What there is in the file behind the place to go on from."""

    reached: Reached = field(default_factory=Reached)
    known: frozenset[As] = frozenset()


@dataclass(slots=True)
class Out:
    """Where the runs go, behind what is there already."""

    file: BinaryIO
    tail: Tail = field(default_factory=Tail)
    count: int = 0


class Line(msgspec.Struct, rename="camel"):
    """What a line says of where it stands."""

    id: UUID
    updated_at: datetime
    completed_at: datetime | None


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
        with _opened(given, chosen) as out, _told(given.output, out):
            known = out.tail.known
            async for page in pages(conn, given.tenant, chosen, out.tail.reached):
                new = [one for one in page if (one.id, one.updated_at) not in known]
                for view in await viewed(conn, new):
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
def _opened(given: argparse.Namespace, chosen: Chosen) -> Generator[Out]:
    path: Path | None = given.output
    if path is None:
        yield Out(sys.stdout.buffer)
        return
    try:
        with path.open("r+b" if given.resume else "xb") as file:
            yield Out(file, _tail(file, path, chosen)) if given.resume else Out(file)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ArgumentError(f"{path} is there (--output). --resume goes on with it.") from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ArgumentError(f"Nothing can be written to {path} (--output): {why}.") from None


def _tail(file: BinaryIO, path: Path, chosen: Chosen) -> Tail:
    """What the last of the whole lines hold; what follows them is cut off."""
    try:
        return _held(_whole(file), chosen)
    except msgspec.MsgspecError:
        raise ArgumentError(f"A line of {path} (--output) is no run.") from None


def _whole(file: BinaryIO) -> Generator[Line]:
    end = 0
    for line in file:
        if line.endswith(b"\n"):
            end += len(line)
            yield msgspec.json.decode(line, type=Line)
    file.seek(end)
    file.truncate()


def _held(lines: Iterable[Line], chosen: Chosen) -> Tail:
    """From where to go on, and which runs behind that the file has.

    A run that ended later than another may have changed earlier, since that has changed once more.
    With a bound on the end the file may lack it: so it is gone on from the latest end, then.
    """
    from_, held = BEGINNING, deque[Line]()
    for line in lines:
        held.append(line)
        at = line.completed_at if chosen.ended_before else line.updated_at
        if at and at > from_ + MARGIN:
            from_ = at - MARGIN
        while held and held[0].updated_at < from_:
            held.popleft()
    return Tail(Reached(from_), frozenset((one.id, one.updated_at) for one in held))
