"""Bodies that every attempt of an action must repeat to the byte, kept before they are sent.

A worker that is killed while it sends has recorded nothing; what it sent is here all the same. Like
a renewal this is no change of the run. Those that are ready together are kept by one statement.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from msgspec import json

from procession.queue.acting import Acting
from procession.queue.outage import FAULTS
from procession.queue.pool import Pool

log = logging.getLogger(__name__)

# Turns of the event loop that one more is waited for, of those claimed in the same moment: what it
# takes to begin a claim. No clock is waited on.
TURNS = 8

# Locked in the order of everybody, and not waited for as long as a call may take. The commit need
# not have reached the disk: it is a killed worker that this is for, and the next commit takes it.
KEEP = """
    with sent as materialized (
        select * from jsonb_to_recordset(%(rows)s::jsonb)
                      as sent (tenant text, run_id uuid, token bigint, path text[], body text)
        where (select set_config('lock_timeout', '1s', true)
                   || set_config('synchronous_commit', 'off', true)) is not null
    ), held as materialized (
        select run.tenant, run.id, sent.path, sent.body
        from sent join run on run.tenant = sent.tenant and run.id = sent.run_id
        where run.lease_token = sent.token
        order by run.tenant, run.id
        for no key update of run
    )
    update run set actions = jsonb_set(run.actions, held.path, to_jsonb(held.body))
    from held where run.tenant = held.tenant and run.id = held.id
"""


@dataclass(frozen=True, slots=True)
class _Body:
    row: dict[str, object]
    kept: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


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
        while True:
            one = _Body(row)
            self._waiting.append(one)
            if len(self._waiting) == 1:
                await self._keep_all()
            if await one.kept:  # not when who wrote for all was cut off
                return

    async def _keep_all(self) -> None:
        """Write for all that wait, the first of whom calls."""
        written = False
        group: list[_Body] = []
        try:
            await self._gathered()
            group, self._waiting = self._waiting, []
            await self._write([one.row for one in group])
            written = True
        finally:
            if not group:
                group, self._waiting = self._waiting, []
            for one in group:
                if not one.kept.done():
                    one.kept.set_result(written)

    async def _gathered(self) -> None:
        seen = 0
        while seen < len(self._waiting):
            seen = len(self._waiting)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    async def _write(self, rows: list[dict[str, object]]) -> None:
        try:
            async with self._pool.connection() as conn:
                await conn.execute(KEEP, {"rows": json.encode(rows).decode()})
        except FAULTS as error:
            log.warning("What is sent cannot be kept before: %s", type(error).__name__)
