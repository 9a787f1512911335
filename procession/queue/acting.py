"""What an action writes: an entry and the runs that this fires, once for each idempotency key.

One transaction: the entry is locked, changed and saved, its runs are queued, then the lease is
checked under the run's row and a marker is left. An attempt whose lease is gone writes nothing; one
that finds the marker need not.

The run's row is locked last of all. So the order is that of everybody (an entry, workflows, a run),
and no renewal of a lease waits for as long as an entry does.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import msgspec
from psycopg import DataError
from psycopg.errors import (
    ForeignKeyViolation,
    ProgramLimitExceeded,
    StatementTooComplex,
    UniqueViolation,
)

from procession.engine.change import Decide, Key
from procession.engine.content_type import ContentType, Sensitivity
from procession.engine.entry import Reference
from procession.engine.outcome import Failed, Outcome, Succeeded
from procession.queue.content_types import decoded
from procession.queue.entries import Writing, lock, write
from procession.queue.outage import OUTAGES
from procession.queue.pool import Connection, Pool
from procession.queue.start import Origin, noted
from procession.queue.types import Queued, Tell, nobody

log = logging.getLogger(__name__)

AGAIN = timedelta(milliseconds=500)  # between tries while the database does not let it
LOST = "The lease of the attempt was lost before it wrote."
UNSTORABLE = "What was to be written cannot be stored."


class GoneError(Exception):
    """The lease is not held any more."""


@dataclass(frozen=True, slots=True)
class Acting:
    """The attempt on whose behalf something is written, and the lease that it holds."""

    tenant: str
    run_id: UUID
    token: int
    origin: Origin


class Entries:
    """The entries of a tenant, as one attempt reads and changes them."""

    def __init__(self, pool: Pool, acting: Acting, tell: Tell = nobody) -> None:
        self._pool = pool
        self._acting = acting
        self._tell = tell

    async def once(self, marker: str, content_type: str, entry_id: str, decide: Decide) -> Outcome:
        """Write what is decided, unless the marker says that it was written.

        While others hold the row, or the database is away, it waits: that is no failure of the
        action, and the marker makes another try safe.
        """
        key = Key(self._acting.tenant, content_type, entry_id)
        while True:
            try:
                with noted() as triggers:
                    async with self._pool.connection() as conn:
                        outcome = await write_once(conn, self._acting, marker, key, decide)
            except GoneError:
                return Failed(LOST, retryable=True)
            except (DataError, ProgramLimitExceeded, StatementTooComplex):
                return Failed(UNSTORABLE)
            except (*OUTAGES, ForeignKeyViolation, UniqueViolation) as error:
                log.warning("An entry cannot be written yet: %s", type(error).__name__)
                await asyncio.sleep(AGAIN.total_seconds())
            else:
                if triggers:
                    self._tell(Queued(tuple(triggers)))
                return outcome

    async def written(self, key: str) -> Collection[str]:
        """The markers of what the children of the action of this key have written, in order.

        It waits while the database is away: what is done next depends on it.
        """
        while True:
            try:
                async with self._pool.connection() as conn:
                    return await written(conn, self._acting, key)
            except OUTAGES as error:
                log.warning("What was written cannot be read yet: %s", type(error).__name__)
                await asyncio.sleep(AGAIN.total_seconds())

    async def referenced(
        self, references: Collection[Reference], fields: Collection[str]
    ) -> dict[Reference, Mapping[str, object]]:
        """Of these fields of these entries, those that are Public."""
        async with self._pool.connection() as conn:
            return await referenced(conn, self._acting.tenant, references, fields)


MARKED = """
    select from marker where tenant = %(tenant)s and run_id = %(run_id)s and key = %(key)s
"""

WRITTEN = """
    select key from marker
    where tenant = %(tenant)s and run_id = %(run_id)s and starts_with(key, %(key)s || '-')
    order by created_at, key
"""

# The lock comes first and the clock is read after it, since it may have been waited for.
MARK = """
    with held as materialized (
        select lease_token, lease_until from run
        where tenant = %(tenant)s and id = %(run_id)s
        for no key update
    )
    insert into marker (tenant, run_id, key)
    select %(tenant)s, %(run_id)s, %(key)s from held
    where lease_token = %(token)s and lease_until > clock_timestamp()
"""


async def write_once(
    conn: Connection, acting: Acting, marker: str, key: Key, decide: Decide
) -> Outcome:
    """Write what is decided, or find that it was; raises GoneError when the lease is lost."""
    named = {"tenant": acting.tenant, "run_id": acting.run_id, "key": marker}
    async with conn.transaction():
        if (await conn.execute(MARKED, named)).rowcount:
            return Succeeded()
        refused = await _write(conn, key, acting.origin, decide)
        if refused is not None:
            return refused
        if not (await conn.execute(MARK, named | {"token": acting.token})).rowcount:
            raise GoneError
    return Succeeded()


async def written(conn: Connection, acting: Acting, key: str) -> list[str]:
    """The markers under this key but for its own: those of its children."""
    named = {"tenant": acting.tenant, "run_id": acting.run_id, "key": key}
    return [marker async for (marker,) in await conn.execute(WRITTEN, named)]


async def _write(conn: Connection, key: Key, origin: Origin, decide: Decide) -> Failed | None:
    """Save what is decided on the locked entry, and queue what it fires; or why it was refused."""
    while True:
        found = await lock(conn, key)
        if found is None:
            decided = decide(None, None)
            assert isinstance(decided, Failed), "there is no entry without a content type"
            return decided
        decided = decide(found.by(origin), found.entry)
        if isinstance(decided, Failed):
            return decided
        writing = Writing(key, found.entry, decided, found.now, origin)
        if await write(conn, writing) is not None:
            return None  # else somebody created it meanwhile: now there is a row to lock


# No more of an entry than is asked for: a template may refer to many, and each may be large.
REFERRED = """
    select entry.content_type, entry.id, content_type.definition::text,
           (select coalesce(json_object_agg(field.key, field.value), '{}')
            from jsonb_each(entry.data) as field
            where field.key = any(%(fields)s::text[]))::text
    from unnest(%(content_types)s::text[], %(ids)s::text[]) as wanted (content_type, id)
    join entry on entry.tenant = %(tenant)s and entry.content_type = wanted.content_type
              and entry.id = wanted.id
    join content_type on content_type.tenant = entry.tenant
                     and content_type.name = entry.content_type
    where entry.sensitivity = 'Public'
"""


async def referenced(
    conn: Connection, tenant: str, references: Collection[Reference], fields: Collection[str]
) -> dict[Reference, Mapping[str, object]]:
    """Of these fields of these entries, those that may leave."""
    wanted = {
        "tenant": tenant,
        "content_types": [content_type for content_type, _ in references],
        "ids": [id_ for _, id_ in references],
        "fields": list(fields),
    }
    cursor = await conn.execute(REFERRED, wanted)
    return {
        (content_type, id_): _public(decoded(definition), data)
        async for content_type, id_, definition, data in cursor
    }


def _public(content_type: ContentType, data: str) -> dict[str, object]:
    values = msgspec.json.decode(data, type=dict[str, object])
    return {
        name: value
        for name, value in values.items()
        if content_type.sensitivity_of(name) is Sensitivity.PUBLIC
    }


PROMISE = """
    update run set actions = jsonb_set(actions, %(path)s::text[], 'true')
    where tenant = %(tenant)s and id = %(run_id)s and lease_token = %(token)s
"""


async def promise(pool: Pool, acting: Acting, ordinal: int, *, undo: bool) -> None:
    """Keep with the attempt in flight that repeating it does no harm.

    The claim keeps it of types that are so always; of the others only the parameters can tell.
    Like a renewal it is no change of the run. What cannot be kept counts as not repeatable.
    """
    values = {
        "tenant": acting.tenant,
        "run_id": acting.run_id,
        "token": acting.token,
        "path": [str(ordinal), *(["undo"] if undo else []), "repeatable"],
    }
    try:
        async with pool.connection() as conn:
            await conn.execute(PROMISE, values)
    except OUTAGES as error:
        log.warning("A promise to be repeatable cannot be kept: %s", type(error).__name__)
