"""Reading a tenant's runs to keep them elsewhere: the oldest first, each once, a page at a time.

The order is that in which they were queued, which does not change. What was read is known by its
last run, so that another process can go on behind it.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

from psycopg.rows import dict_row

from procession.engine.run import RunStatus
from procession.queue.pool import Connection
from procession.queue.stored_run import READ, StoredRun, stored

PAGE = 100  # runs; with a history of 20 attempts an action, some megabytes
NONE = UUID(int=0)
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reached:
    """The last run that was read, by its place in the order."""

    created_at: datetime = BEGINNING
    id: UUID = NONE

    @property
    def values(self) -> Mapping[str, object]:
        return {"at": self.created_at, "behind": self.id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which runs; what is empty chooses all."""

    statuses: tuple[RunStatus, ...] = ()
    ended_before: datetime | None = None

    @property
    def values(self) -> Mapping[str, object]:
        return {"statuses": list(self.statuses), "ended_before": self.ended_before}


PIECES: dict[str, LiteralString] = {
    "statuses": "and status = any (%(statuses)s)",
    "ended_before": "and created_at < %(ended_before)s and completed_at < %(ended_before)s",
}

# The index of the newest, read from its end.
NEXT = READ.replace(
    "/* which */",
    """
      and run.id = any (array(
            select id from run
            where tenant = %(tenant)s and created_at >= %(at)s
              and (created_at > %(at)s or id < %(behind)s) /* filters */
            order by created_at, id desc
            limit %(limit)s))
    order by run.created_at, run.id desc
""",
)


async def pages(
    conn: Connection, tenant: str, chosen: Chosen, reached: Reached
) -> AsyncGenerator[list[StoredRun]]:
    """What there is behind the place, until there is no more."""
    pieces: list[LiteralString] = [PIECES[name] for name, value in chosen.values.items() if value]
    statement = NEXT.replace("/* filters */", " ".join(pieces))
    while True:
        wanted = {"tenant": tenant, "limit": PAGE, **chosen.values, **reached.values}
        async with conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement, wanted)
            found = [stored(row) async for row in cursor]
        if found:
            yield found
            reached = Reached(found[-1].created_at, found[-1].id)
        if len(found) < PAGE:
            return
