"""Reading a tenant's runs to keep them elsewhere, a page at a time, by when they last changed.

So one that comes to be chosen later than a younger one, by ending or by being committed, is behind
what was read and not before it. Its time is taken before its transaction ends: who goes on begins
the `MARGIN` before the last run that was read, and leaves out what there is of it already.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import LiteralString
from uuid import UUID

from psycopg.rows import dict_row

from procession.engine.run import RunStatus
from procession.queue.pool import Connection
from procession.queue.stored_run import READ, StoredRun, stored

PAGE = 100  # runs; with a history of 20 attempts an action, some megabytes
NONE = UUID(int=0)
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
# No transaction of ours lives as long, whatever it waits for; and it bears a clock that was set.
MARGIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Reached:
    """The last run that was read, by its place in the order."""

    updated_at: datetime = BEGINNING
    id: UUID = NONE

    @property
    def values(self) -> Mapping[str, object]:
        return {"at": self.updated_at, "behind": self.id}


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
    "ended_before": "and completed_at < %(ended_before)s",
}

# The place is what the row says, to the letter: it may be a time that no calendar of ours has.
NEXT = READ.replace("run.updated_at,", "run.updated_at, run.updated_at::text as place,").replace(
    "/* which */",
    """
      and run.id = any (array(
            select id from run
            where tenant = %(tenant)s
              and (updated_at, id) > (%(at)s::timestamptz, %(behind)s) /* filters */
            order by updated_at, id
            limit %(limit)s))
    order by run.updated_at, run.id
""",
)


async def pages(
    conn: Connection, tenant: str, chosen: Chosen, reached: Reached
) -> AsyncGenerator[list[StoredRun]]:
    """What there is behind the place, until there is no more."""
    pieces: list[LiteralString] = [PIECES[name] for name, value in chosen.values.items() if value]
    statement = NEXT.replace("/* filters */", " ".join(pieces))
    wanted = {"tenant": tenant, "limit": PAGE, **chosen.values, **reached.values}
    while True:
        async with conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement, wanted)
            rows = await cursor.fetchall()
        if rows:
            yield [stored(row) for row in rows]
            wanted |= {"at": rows[-1]["place"], "behind": rows[-1]["id"]}
        if len(rows) < PAGE:
            return
