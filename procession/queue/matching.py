"""Which workflows a change fires: those that match it, locked, and whose conditions it meets.

A matching workflow is held in share mode until the change is saved, so it is changed, switched off
or deleted either before the change or after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

import msgspec
from psycopg.rows import TupleRow

from procession.engine.conditions import first_failing
from procession.engine.entry import Entry
from procession.engine.workflow import Definition
from procession.queue.pool import Connection


@dataclass(frozen=True, slots=True)
class Matched:
    """A workflow that a change matches, by these of its events."""

    id: UUID
    version: int
    definition: Definition
    events: frozenset[str]

    def fires(self, event: str, entry: Entry | None) -> bool:
        """Whether the event fires it. A deleted entry (None) meets no condition."""
        return event in self.events and first_failing(self.definition.conditions, entry) is None


# `written` is replaced by the write itself. Its row leads the join, so that no workflow is locked
# before the entry is, and none when the write met somebody else's.
MATCH = """
    with written as (
        select %(tenant)s::text as tenant
    )
    select matched.id, matched.version, used.definition::text, array(
               select event from workflow_trigger as declared
               where declared.tenant = written.tenant and declared.workflow_id = matched.id
                 and declared.content_type = %(content_type)s and event = any(%(events)s::text[]))
    from written
    left join lateral (
        select workflow.id, workflow.version
        from workflow
        where workflow.tenant = written.tenant and workflow.id in (
                  select workflow_id from workflow_trigger as declared
                  where declared.tenant = written.tenant
                    and declared.content_type = %(content_type)s
                    and declared.event = any(%(events)s::text[]))
          and workflow.enabled and workflow.deleted_at is null
        order by workflow.id
        for share of workflow
    ) as matched on true
    left join workflow_version as used
      on used.tenant = written.tenant and used.workflow_id = matched.id
     and used.version = matched.version
    order by matched.id
"""


def matching(write: LiteralString) -> LiteralString:
    """The statement that writes first; the write returns the tenant of what it wrote."""
    return MATCH.replace("select %(tenant)s::text as tenant", write)


async def match(
    conn: Connection, statement: LiteralString, wanted: Mapping[str, object]
) -> list[Matched] | None:
    """Carry out the write and lock what it matches; None when it found nothing to write."""
    rows = await _rows(conn, statement, wanted)
    written = bool(rows)
    while any(row[0] is not None and row[2] is None for row in rows):
        # A workflow was saved while its lock was waited for. The row is the one that came of it;
        # its version and its triggers this statement began too early to see.
        rows = await _rows(conn, MATCH, wanted)
    return [_matched(row) for row in rows if row[0] is not None] if written else None


async def _rows(
    conn: Connection, statement: LiteralString, wanted: Mapping[str, object]
) -> Sequence[TupleRow]:
    return await (await conn.execute(statement, wanted)).fetchall()


def _matched(row: TupleRow) -> Matched:
    definition = msgspec.json.decode(row[2], type=Definition)
    return Matched(row[0], row[1], definition, frozenset(row[3]))
