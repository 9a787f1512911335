"""Entries, and the runs that their changes fire.

A change, its events, the runs and the first job of each are one transaction: all of it is saved or
none. The entry's row is locked first, then the workflows that match, in the order of their ids.
Runs that change entries fire runs; where that goes too deep, the change stands and fires nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from psycopg.errors import ForeignKeyViolation
from psycopg.types.json import Jsonb

from procession.engine.change import Key, Making, changed, moved, read_change, transition_of
from procession.engine.content_type import ContentType
from procession.engine.entry import TRANSITION, Entry, events_of
from procession.engine.errors import Concern, NotFoundError
from procession.engine.precondition import Precondition
from procession.queue.audit import By, Note, note
from procession.queue.content_types import decoded
from procession.queue.matching import Matched, match, matching
from procession.queue.pool import Connection
from procession.queue.start import Cause, NewRun, Origin, start
from procession.queue.stored_entry import entry_in


@dataclass(frozen=True, slots=True)
class Fired:
    """The events of a write, in their order, and the runs that they queued."""

    events: tuple[str, ...] = ()
    run_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a write finds, under the lock of the entry's row if there is one."""

    content_type: ContentType
    entry: Entry | None
    now: datetime

    def by(self, origin: Origin) -> Making:
        return Making(origin.actor, self.now, self.content_type)


@dataclass(frozen=True, slots=True)
class Saved:
    """An entry as it is after a write, and what the write fired."""

    entry: Entry
    content_type: ContentType
    fired: Fired
    is_new: bool = False
    warnings: tuple[Concern, ...] = ()


# The time is read once the lock is there, since that may have been waited for.
LOCK = """
    with locked as materialized (
        select * from entry
        where tenant = %(tenant)s and content_type = %(content_type)s and id = %(id)s
        for no key update
    )
    select definition::text, row_to_json(locked)::text, clock_timestamp()
    from content_type left join locked on true
    where content_type.tenant = %(tenant)s and content_type.name = %(content_type)s
"""


async def lock(conn: Connection, key: Key) -> Found | None:
    """The entry as it is, and as it stays until the transaction ends; None without its type."""
    row = await (await conn.execute(LOCK, msgspec.structs.asdict(key))).fetchone()
    if row is None:
        return None
    entry = None if row[1] is None else entry_in(row[1])
    return Found(decoded(row[0]), entry, row[2])


async def put(
    conn: Connection, key: Key, body: object, wanted: Precondition, origin: Origin
) -> Saved:
    """Create the entry or replace it, as the body says."""
    try:
        async with conn.transaction():
            while True:
                found = await lock(conn, key)
                if found is None:
                    raise NotFoundError("content type")
                wanted.refuse_unread()
                change = read_change(body, found.content_type)
                wanted.check(found.entry and found.entry.version)
                entry = changed(found.entry, key, change, found.by(origin))
                fired = await write(conn, Writing(key, found.entry, entry, found.now, origin))
                if fired is not None:
                    break  # else somebody created it meanwhile: now there is a row to lock
    except ForeignKeyViolation:  # deleted meanwhile
        raise NotFoundError("content type") from None
    return Saved(entry, found.content_type, fired, found.entry is None, change.warnings)


async def move(
    conn: Connection, key: Key, name: str, wanted: Precondition, origin: Origin
) -> Saved:
    """Perform a transition of the entry."""
    async with conn.transaction():
        found = await lock(conn, key)
        if found is None or found.entry is None:
            raise NotFoundError("entry")
        transition_of(found.entry, name, found.content_type)
        wanted.refuse_unread()
        entry, declared = moved(found.entry, name, found.by(origin))
        wanted.check(found.entry.version)
        writing = Writing(key, found.entry, entry, found.now, origin, declared)
        fired = await write(conn, writing) or Fired()
    return Saved(entry, found.content_type, fired)


async def delete(conn: Connection, key: Key, wanted: Precondition, origin: Origin) -> Fired:
    """Take the entry away."""
    async with conn.transaction():
        found = await lock(conn, key)
        if found is None or found.entry is None:
            raise NotFoundError("entry")
        wanted.check(found.entry.version)
        writing = Writing(key, found.entry, None, found.now, origin)
        return await write(conn, writing) or Fired()


@dataclass(frozen=True, slots=True)
class Writing:
    """A change that is decided: what was there, locked, and what is to be there."""

    key: Key
    before: Entry | None
    after: Entry | None
    at: datetime
    origin: Origin
    transition: str | None = None  # that was performed, as it is declared

    @property
    def values(self) -> dict[str, object]:
        """The columns of the entry."""
        named = msgspec.structs.asdict(self.key)
        if self.after is None:
            return named
        documents = {
            name: Jsonb(getattr(self.after, name), dumps=msgspec.json.encode)
            for name in ("data", "created_by", "updated_by")
        }
        return {**msgspec.structs.asdict(self.after), **documents, **named}


INSERT = matching("""
        insert into entry (tenant, content_type, id, status, sensitivity, data, version,
                           created_at, updated_at, created_by, updated_by)
        values (%(tenant)s, %(content_type)s, %(id)s, %(status)s, %(sensitivity)s, %(data)s,
                %(version)s, %(created_at)s, %(updated_at)s, %(created_by)s, %(updated_by)s)
        on conflict do nothing
        returning tenant
""")

UPDATE = matching("""
        update entry
        set status = %(status)s, sensitivity = %(sensitivity)s, data = %(data)s,
            version = %(version)s, updated_at = %(updated_at)s, updated_by = %(updated_by)s
        where tenant = %(tenant)s and content_type = %(content_type)s and id = %(id)s
        returning tenant
""")

DELETE = matching("""
        delete from entry
        where tenant = %(tenant)s and content_type = %(content_type)s and id = %(id)s
        returning tenant
""")


async def write(conn: Connection, writing: Writing) -> Fired | None:
    """Write the change, in the caller's transaction, and queue what it fires.

    None when an entry that was not there is there by now, and nothing was written.
    """
    before, after = writing.before, writing.after
    if before is after:
        return Fired()
    events = events_of(before, after, writing.transition)
    statement = DELETE if after is None else INSERT if before is None else UPDATE
    matched = await match(conn, statement, {**writing.values, "events": list(events)})
    if matched is None:
        return None
    runs: list[NewRun] = []
    for event in events:
        firing = [one for one in matched if one.fires(event, after)]
        number = len({run.trigger for run in runs})
        runs += [_run(writing, event, number, one) for one in firing]
    cause = writing.origin.cause
    if cause is not None and writing.origin.depth > cause.max_depth:
        await _note_depth(conn, writing, cause, dict.fromkeys(run.trigger for run in runs))
        return Fired(events)
    return Fired(events, tuple(await start(conn, writing.key.tenant, runs)))


async def _note_depth(
    conn: Connection, writing: Writing, cause: Cause, events: Iterable[str]
) -> None:
    """Say in the audit log of each event that it would have queued runs too far down."""
    key = writing.key
    about = {
        "contentType": key.content_type,
        "depth": writing.origin.depth,
        "runId": str(cause.run_id),
    }
    for event in events:
        what = Note("workflow.depth.exceeded", "Entry", key.id, {**about, "event": event})
        await note(conn, key.tenant, By(), what)


def _run(writing: Writing, event: str, number: int, matched: Matched) -> NewRun:
    return NewRun(
        workflow_id=matched.id,
        workflow_version=matched.version,
        definition=matched.definition,
        content_type=writing.key.content_type,
        entry_id=writing.key.id,
        trigger=event,
        origin=writing.origin,
        at=writing.at,
        transition=writing.transition if event.startswith(TRANSITION) else None,
        event=number,
    )
