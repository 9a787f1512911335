"""Workflows: the row that is locked, its immutable versions, and what its current one matches.

A save writes the version and the triggers in the caller's transaction, under the row's lock. An
entry's save holds matching rows in share mode, so it sees a workflow before a save or after it.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Json

from procession.engine.content_type import ContentType
from procession.engine.workflow import Definition
from procession.queue.content_types import decoded
from procession.queue.named import row_of
from procession.queue.pool import Connection
from procession.queue.runs import Span


class Workflow(Struct, frozen=True, kw_only=True):
    """A workflow at one of its versions."""

    id: UUID
    version: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    definition: Definition


def read(row: DictRow) -> Workflow:
    """The workflow of a row whose definition is still text."""
    document = {"definition": msgspec.json.decode(row["definition"])}
    return msgspec.convert(row | document, Workflow)


def as_json(definition: Definition) -> Json:
    """The definition as a parameter; its keys keep their order."""
    return Json(definition, dumps=msgspec.json.encode)


INSERT = """
    with made as (
        insert into workflow (tenant, id, name, enabled)
        values (%(tenant)s, %(id)s, %(name)s, %(enabled)s)
        returning *
    ), versioned as (
        insert into workflow_version (tenant, workflow_id, version, definition)
        select tenant, id, version, %(definition)s from made
    ), matching as (
        insert into workflow_trigger (tenant, content_type, event, workflow_id)
        select tenant, content_type, event, id
        from made, unnest(%(content_types)s::text[]) as content_type,
             unnest(%(events)s::text[]) as event
    )
    select created_at, updated_at from made
"""


def parts(definition: Definition) -> dict[str, object]:
    """What a save writes of a definition."""
    return {
        "name": definition.name,
        "definition": as_json(definition),
        "content_types": list(definition.trigger_content_types),
        "events": list(definition.trigger_events),
    }


async def insert(
    conn: Connection, tenant: str, workflow_id: UUID, definition: Definition, *, enabled: bool
) -> Workflow:
    """Write a workflow at version 1."""
    named = {"tenant": tenant, "id": workflow_id, "enabled": enabled}
    cursor = await conn.execute(INSERT, {**named, **parts(definition)})
    row = await cursor.fetchone()
    assert row is not None  # an insert that did not raise
    return Workflow(
        id=workflow_id,
        version=1,
        enabled=enabled,
        created_at=row[0],
        updated_at=row[1],
        definition=definition,
    )


ONE = """
    select workflow.id, workflow.version, enabled, workflow.created_at, updated_at,
           definition::text
    from workflow
    join workflow_version as current
      on current.tenant = workflow.tenant and current.workflow_id = workflow.id
     and current.version = workflow.version
    where workflow.tenant = %(tenant)s and workflow.id = %(id)s and deleted_at is null
"""


async def one(conn: Connection, tenant: str, workflow_id: UUID) -> Workflow | None:
    """The workflow as it is now, unless it is deleted."""
    row = await row_of(conn, ONE, {"tenant": tenant, "id": workflow_id})
    return None if row is None else read(row)


# Two steps: a lock that was waited for gives the row as it has become, but joins it to the version
# that the statement saw when it began.
LOCK = """
    select from workflow
    where tenant = %(tenant)s and id = %(id)s and deleted_at is null
    for update
"""


async def lock(conn: Connection, tenant: str, workflow_id: UUID) -> Workflow | None:
    """The workflow as it is now, and as it stays until the transaction ends."""
    held = await conn.execute(LOCK, {"tenant": tenant, "id": workflow_id})
    return await one(conn, tenant, workflow_id) if held.rowcount else None


AT_VERSION = """
    select workflow_id as id, kept.version, enabled, workflow.created_at,
           kept.created_at as updated_at, definition::text
    from workflow_version as kept
    join workflow on workflow.tenant = kept.tenant and workflow.id = kept.workflow_id
    where kept.tenant = %(tenant)s and workflow_id = %(id)s and kept.version = %(version)s
"""


async def at_version(
    conn: Connection, tenant: str, workflow_id: UUID, version: int
) -> Workflow | None:
    """One of its versions while it is kept, whether or not the workflow is deleted."""
    wanted = {"tenant": tenant, "id": workflow_id, "version": version}
    row = await row_of(conn, AT_VERSION, wanted)
    return None if row is None else read(row)


EXISTS = "select from workflow where tenant = %(tenant)s and id = %(id)s"


async def exists(conn: Connection, tenant: str, workflow_id: UUID) -> bool:
    """Whether the tenant has it, or had it."""
    found = await conn.execute(EXISTS, {"tenant": tenant, "id": workflow_id})
    return found.rowcount == 1


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and how long all of it is."""

    items: list[Workflow]
    total: int


COUNT = "select count(*) from workflow where tenant = %(tenant)s and deleted_at is null"

LIST = """
    select workflow.id, workflow.version, enabled, workflow.created_at, updated_at,
           definition::text
    from (
        select * from workflow
        where tenant = %(tenant)s and deleted_at is null
        order by name, id
        limit %(limit)s offset %(offset)s
    ) as workflow
    join workflow_version as current
      on current.tenant = %(tenant)s and current.workflow_id = workflow.id
     and current.version = workflow.version
    order by name, id
"""


async def page(conn: Connection, tenant: str, span: Span) -> Page:
    """Workflows by name, then id."""
    counted = await conn.execute(COUNT, {"tenant": tenant})
    (total,) = await counted.fetchone() or (0,)
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(LIST, {"tenant": tenant, **span.values})
        return Page([read(row) async for row in cursor], total)


REPLACE = """
    with saved as (
        update workflow
        set name = %(name)s, version = version + 1, enabled = %(enabled)s,
            updated_at = clock_timestamp()
        where tenant = %(tenant)s and id = %(id)s
        returning *
    ), versioned as (
        insert into workflow_version (tenant, workflow_id, version, definition)
        select tenant, id, version, %(definition)s from saved
    ), unmatched as (
        delete from workflow_trigger
        where tenant = %(tenant)s and workflow_id = %(id)s
          and not (content_type = any (%(content_types)s) and event = any (%(events)s))
    ), matching as (
        insert into workflow_trigger (tenant, content_type, event, workflow_id)
        select tenant, content_type, event, id
        from saved, unnest(%(content_types)s::text[]) as content_type,
             unnest(%(events)s::text[]) as event
        on conflict do nothing
    )
    select from saved
"""


async def replace(
    conn: Connection, tenant: str, workflow_id: UUID, definition: Definition, *, enabled: bool
) -> None:
    """Write the next version of a workflow whose row the caller has locked."""
    named = {"tenant": tenant, "id": workflow_id, "enabled": enabled}
    await conn.execute(REPLACE, {**named, **parts(definition)})


ENABLE = """
    update workflow set enabled = %(enabled)s, updated_at = clock_timestamp()
    where tenant = %(tenant)s and id = %(id)s
"""


async def enable(conn: Connection, tenant: str, workflow_id: UUID, *, enabled: bool) -> None:
    """Switch on or off a workflow whose row the caller has locked."""
    await conn.execute(ENABLE, {"tenant": tenant, "id": workflow_id, "enabled": enabled})


DECLARED = "select name, definition::text from content_type where tenant = %(tenant)s"


async def declared(conn: Connection, tenant: str) -> dict[str, ContentType]:
    """The content types of a tenant, which a definition is checked against."""
    cursor = await conn.execute(DECLARED, {"tenant": tenant})
    return {name: decoded(definition) async for name, definition in cursor}
