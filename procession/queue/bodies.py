"""Bodies that every attempt of an action must repeat to the byte, kept before they are sent.

A worker that is killed while it sends has recorded nothing; what it sent is here all the same. Like
a renewal this is no change of the run. Those that are ready together are kept by one statement.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from msgspec import json

from procession.queue.acting import Acting
from procession.queue.outage import OUTAGES
from procession.queue.pool import Pool

log = logging.getLogger(__name__)

# Turns of the event loop that one more is waited for, of those claimed in the same moment: what it
# takes to begin a claim. No clock is waited on.
TURNS = 8

LARGE = 1_000_000  # characters, behind which no other body is kept by the same statement

# Seconds between tries while somebody else has locked the run: about one in all, then it is sent.
AGAIN = (0.02, 0.1, 0.2, 0.3, 0.4)

# Locked in the order of everybody; what somebody else has locked is given back, and keeps nobody
# else's from being kept. The commit need not have reached the disk: it is a killed worker that this
# is for, and the next commit takes it.
KEEP = """
    with sent as materialized (
        select * from jsonb_to_recordset(%(rows)s::jsonb)
                      as sent (tenant text, run_id uuid, token bigint, path text[], body text)
        where (select set_config('lock_timeout', '1s', true)
                   || set_config('synchronous_commit', 'off', true)) is not null
    ), seen as materialized (
        select sent.* from sent join run on run.tenant = sent.tenant and run.id = sent.run_id
        where run.lease_token = sent.token
    ), held as materialized (
        select run.tenant, run.id, seen.path, seen.body
        from seen join run on run.tenant = seen.tenant and run.id = seen.run_id
        where run.lease_token = seen.token
        order by run.tenant, run.id
        for no key update of run skip locked
    ), kept as (
        update run set actions = jsonb_set(run.actions, held.path, to_jsonb(held.body))
        from held where run.tenant = held.tenant and run.id = held.id
        returning run.tenant, run.id
    )
    select tenant, run_id from seen
    where not exists (select from kept where kept.tenant = seen.tenant and kept.id = seen.run_id)
"""


class _Came(Enum):
    """What came of keeping a body."""

    DONE = auto()  # it is kept, or never will be
    LOCKED = auto()
    CUT_OFF = auto()  # who wrote for all was


@dataclass(frozen=True, slots=True)
class _Body:
    row: dict[str, object]
    came: asyncio.Future[_Came] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def size(self) -> int:
        return len(str(self.row["body"]))

    @property
    def place(self) -> tuple[object, object]:
        return self.row["tenant"], self.row["run_id"]


class Bodies:
    """The bodies of a process on their way to be kept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waiting: list[_Body] = []

    async def keep(self, acting: Acting, ordinal: int, body: str, *, undo: bool) -> None:
        """Keep it with the attempt in flight. What cannot be kept is sent nevertheless."""
        row: dict[str, object] = {
            "tenant": acting.tenant,
            "run_id": acting.run_id,
            "token": acting.token,
            "path": [str(ordinal), *(["undo"] if undo else []), "body"],
            "body": body,
        }
        waits = iter(AGAIN)
        while (came := await self._tried(row)) is not _Came.DONE:
            if came is _Came.LOCKED:
                wait = next(waits, None)
                if wait is None:
                    log.warning("What is sent cannot be kept before: its run is locked")
                    return
                await asyncio.sleep(wait)

    async def _tried(self, row: dict[str, object]) -> _Came:
        one = _Body(row)
        self._waiting.append(one)
        if len(self._waiting) == 1:
            await self._keep_all()
        return await one.came

    async def _keep_all(self) -> None:
        """Write for all that wait, the first of whom calls."""
        group: list[_Body] = []
        try:
            await self._gathered()
            group, self._waiting = self._waiting, []
            for part in _parts(group):
                await self._write(part)
        finally:
            if not group:
                group, self._waiting = self._waiting, []
            for one in group:
                _tell(one, _Came.CUT_OFF)  # what is told already stays

    async def _gathered(self) -> None:
        seen = 0
        while seen < len(self._waiting):
            seen = len(self._waiting)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    async def _write(self, group: list[_Body]) -> None:
        try:
            rows = json.encode([one.row for one in group]).decode()
            async with self._pool.connection() as conn:
                cursor = await conn.execute(KEEP, {"rows": rows})
                locked = set(await cursor.fetchall())
        except Exception as error:  # noqa: BLE001  whatever one of them met, the others go on
            if len(group) > 1 and not isinstance(error, OUTAGES):  # it may be one that is refused
                for one in group:
                    await self._write([one])
                return
            log.warning("What is sent cannot be kept before: %s", type(error).__name__)
            locked = set[tuple[object, object]]()
        for one in group:
            _tell(one, _Came.LOCKED if one.place in locked else _Came.DONE)


def _parts(group: list[_Body]) -> Iterator[list[_Body]]:
    """As many at a time as are written in a moment: beside a large body there may be others."""
    part, size = list[_Body](), 0
    for one in group:
        part.append(one)
        size += one.size
        if size >= LARGE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _tell(one: _Body, came: _Came) -> None:
    if not one.came.done():
        one.came.set_result(came)
