"""Carrying out a verb for many runs: a batch is one transaction, a turn as many as there is time.

A batch moves the place it has come to along with the runs that it writes, so what is killed goes on
where it was and does nothing twice. Who works on it holds it by a token, as runs are held; a worker
whose token is gone writes nothing. Locks are taken in the order of all commands: the workflows,
then the runs, each by id.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

from msgspec import MsgspecError
from psycopg import Error
from psycopg.errors import ProgramLimitExceeded
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from procession.engine.errors import ConflictError
from procession.queue.bulk import bulk_of, note_end
from procession.queue.bulk_batch import Dealt, Held, deal, following
from procession.queue.outage import OUTAGES
from procession.queue.pool import Connection
from procession.queue.save import MANY

BATCH = MANY  # runs of a transaction: short enough for whoever waits for one of them
TURN = timedelta(seconds=10)  # then others have the slot for tasks of maintenance
UNREADABLE = "internal-error"  # of a run that a batch failed by
FAULTY = (Error, MsgspecError, LookupError, ConflictError)  # by what; not for the outages


# Of the tenant that has had no turn for longest, the one that has had none for longest.
TAKE = """
    update bulk
    set token = nextval('lease_token'), lease_until = clock_timestamp() + interval '30 seconds',
        status = 'Running', turned_at = clock_timestamp()
    where (tenant, id) = (
        select tenant, id from bulk
        where finished_at is null
          and (lease_until is null or lease_until < clock_timestamp())
        order by (select max(turned_at) from bulk as any_of where any_of.tenant = bulk.tenant)
                 nulls first, turned_at nulls first, created_at
        limit 1
        for update skip locked)
    returning tenant, id, token
"""
RELEASE = """
    update bulk set token = null, lease_until = null
    where tenant = %(tenant)s and id = %(id)s and token = %(token)s
"""
UNFINISHED = "select exists (select from bulk where finished_at is null)"

# Locks it until the batch is written.
HOLD = """
    update bulk set lease_until = clock_timestamp() + interval '30 seconds'
    where tenant = %(tenant)s and id = %(id)s and token = %(token)s
    returning *
"""

ADVANCE = """
    update bulk
    set done = done + %(done)s, changed = changed + %(changed)s, refused = %(refused)s,
        past_at = %(past_at)s, past_id = %(past_id)s
    where tenant = %(tenant)s and id = %(id)s
"""
END = """
    update bulk set status = 'Done', finished_at = clock_timestamp(), token = null,
        lease_until = null
    where tenant = %(tenant)s and id = %(id)s
    returning *
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a worker holds for the length of a turn."""

    tenant: str
    id: UUID
    token: int

    @property
    def values(self) -> Mapping[str, object]:
        return {"tenant": self.tenant, "id": self.id, "token": self.token}


async def turn(conn: Connection, seconds: float = TURN.total_seconds()) -> int | None:
    """Work on one of them for a while; how many runs that dealt with, None where none waits."""
    taken = await take(conn)
    if taken is None:
        return None
    end, dealt, size = monotonic() + seconds, 0, BATCH
    try:
        while monotonic() < end:
            try:
                found = await batch(conn, taken, size)
            except FAULTY as error:  # one of them is at fault, and is found by going singly
                if isinstance(error, OUTAGES) and not isinstance(error, ProgramLimitExceeded):
                    raise
                found = 0 if size > 1 else await pass_over(conn, taken)
                size = 1 if size > 1 else BATCH
            if found is None:
                break
            dealt += found
        return dealt
    finally:
        if not conn.closed:
            await conn.execute(RELEASE, taken.values)


async def take(conn: Connection) -> Taken | None:
    """Hold the next one, if there is one that nobody holds."""
    cursor = await conn.execute(TAKE)
    row = await cursor.fetchone()
    return None if row is None else Taken(*row)


async def waits(conn: Connection) -> bool:
    """Whether there is more to do."""
    cursor = await conn.execute(UNFINISHED)
    row = await cursor.fetchone()
    return row is not None and row[0]


async def batch(conn: Connection, taken: Taken, size: int) -> int | None:
    """Deal with the next so many runs; None when there are none, or it is no longer ours."""
    async with conn.transaction():
        held = await hold(conn, taken)
        if held is None:
            return None
        left = max(held.bulk.matched - held.bulk.done, 0)  # what comes to fit adds nothing
        runs = await following(conn, taken.tenant, held, min(size, left))
        if not runs:
            await end(conn, taken)
            return None
        dealt = await deal(conn, taken.tenant, held.bulk, runs)
        await advance(conn, taken, held, dealt)
    return dealt.done


async def pass_over(conn: Connection, taken: Taken) -> int | None:
    """Leave out the one run that cannot be dealt with, and count it."""
    async with conn.transaction():
        held = await hold(conn, taken)
        if held is None:
            return None
        (run,) = await following(conn, taken.tenant, held, 1)
        await advance(conn, taken, held, Dealt(run, 1, refused=Counter({UNREADABLE: 1})))
    return 1


async def hold(conn: Connection, taken: Taken) -> Held | None:
    """How it stands, and stays until the transaction ends; None when the token is gone."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(HOLD, taken.values)
        row = await cursor.fetchone()
    return None if row is None else Held(bulk_of(row), row["past_at"], row["past_id"])


async def advance(conn: Connection, taken: Taken, held: Held, dealt: Dealt) -> None:
    """Move on behind these runs."""
    await conn.execute(
        ADVANCE,
        {
            **taken.values,
            "done": dealt.done,
            "changed": dealt.changed,
            "refused": Jsonb(dealt.refused + Counter(held.bulk.refused)),
            "past_at": dealt.last.created_at,
            "past_id": dealt.last.id,
        },
    )


async def end(conn: Connection, taken: Taken) -> None:
    """It is done, and so it is noted."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(END, taken.values)
        row = await cursor.fetchone()
    assert row is not None  # it is locked
    await note_end(conn, taken.tenant, bulk_of(row))
