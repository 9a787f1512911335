"""Stored requests, and reading one together with the connector that it is sent through."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import msgspec
from msgspec import Struct
from psycopg.errors import ForeignKeyViolation
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from procession.engine.errors import Fault, NotFoundError, ValidationFailedError
from procession.engine.request_definition import SAFE, RequestDefinition
from procession.queue.audit import By, Note
from procession.queue.connectors import Kept as Connector
from procession.queue.connectors import kept_of as connector_of
from procession.queue.named import make_or_replace, part_of, remove, row_of
from procession.queue.pool import Connection
from procession.queue.runs import Span


class Kept(Struct, frozen=True, kw_only=True):
    """A request as it is kept."""

    slug: str
    definition: RequestDefinition
    created_at: datetime
    updated_at: datetime


def _kept(row: DictRow) -> Kept:
    return Kept(
        slug=row["slug"],
        definition=msgspec.json.decode(row["definition"], type=RequestDefinition),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


# xmax is 0 in a row that this statement inserted. A definition that is there already gives no row.
SAVE = """
    insert into request_definition as kept (tenant, slug, connector_slug, definition)
    values (%(tenant)s, %(slug)s, %(connector)s, %(definition)s)
    on conflict (tenant, slug) do update
    set definition = excluded.definition, connector_slug = excluded.connector_slug,
        updated_at = clock_timestamp()
    where kept.definition <> excluded.definition
    returning xmax = 0
"""


async def save(
    conn: Connection, tenant: str, slug: str, definition: RequestDefinition, by: By
) -> tuple[Kept, bool]:
    """Make it or replace it; and whether it is new. Saving what is there already does nothing."""
    values = {
        "tenant": tenant,
        "slug": slug,
        "connector": definition.connector_slug,
        "definition": Jsonb(definition, dumps=msgspec.json.encode),
    }
    try:
        async with conn.transaction():
            is_new = await make_or_replace(conn, SAVE, values, by, _noted("saved", slug))
            kept = await one(conn, tenant, slug)
    except ForeignKeyViolation:
        fault = Fault("connectorSlug", "is not a connector of this tenant")
        raise ValidationFailedError([fault]) from None
    assert kept is not None, "its row is locked, also by a save that has nothing to do"
    return kept, is_new


def _noted(done: str, slug: str) -> Note:
    return Note(f"request.{done}", "Request", slug, {"slug": slug})


ONE = """
    select slug, definition::text, created_at, updated_at
    from request_definition where tenant = %(tenant)s and slug = %(slug)s
"""


async def one(conn: Connection, tenant: str, slug: str) -> Kept | None:
    row = await row_of(conn, ONE, {"tenant": tenant, "slug": slug})
    return None if row is None else _kept(row)


PAGE = """
    select total.count, part.*
    from (select count(*) from request_definition where tenant = %(tenant)s) as total
    left join lateral (
        select slug, definition::text, created_at, updated_at
        from request_definition where tenant = %(tenant)s
        order by slug offset %(offset)s limit %(limit)s
    ) as part on true
    order by slug
"""


async def page(conn: Connection, tenant: str, span: Span) -> tuple[list[Kept], int]:
    """Part of them, by slug, and how many there are."""
    rows, total = await part_of(conn, PAGE, {"tenant": tenant, **span.values})
    return [_kept(row) for row in rows], total


DELETE = "delete from request_definition where tenant = %(tenant)s and slug = %(slug)s"


async def delete(conn: Connection, tenant: str, slug: str, by: By) -> None:
    """Take it away. A workflow that names it fails when it is performed."""
    async with conn.transaction():
        named = {"tenant": tenant, "slug": slug}
        if not await remove(conn, DELETE, named, by, _noted("deleted", slug)):
            raise NotFoundError("request")


SLUGS = "select slug from request_definition where tenant = %(tenant)s"


async def slugs(conn: Connection, tenant: str) -> frozenset[str]:
    """The requests that a workflow of the tenant may name."""
    cursor = await conn.execute(SLUGS, {"tenant": tenant})
    return frozenset([slug async for (slug,) in cursor])


@dataclass(frozen=True, slots=True)
class Found:
    """A request, and where it goes."""

    slug: str
    request: RequestDefinition
    connector: Connector

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice under one key does no more than sending it once."""
        return self.request.method in SAFE or bool(self.connector.connector.idempotency_header)


FIND = """
    select request.slug as request_slug, request.definition::text as request,
           connector.tenant, connector.slug, connector.definition::text, connector.secrets::text,
           connector.created_at, connector.updated_at
    from request_definition as request
    join connector on connector.tenant = request.tenant and connector.slug = request.connector_slug
    where request.tenant = %(tenant)s and request.slug = any(%(slugs)s)
"""


async def find(conn: Connection, tenant: str, wanted: Collection[str]) -> dict[str, Found]:
    """The requests of these slugs, as far as there are such."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(FIND, {"tenant": tenant, "slugs": list(wanted)})
        return {
            row["request_slug"]: Found(
                row["request_slug"],
                msgspec.json.decode(row["request"], type=RequestDefinition),
                connector_of(row),
            )
            async for row in cursor
        }
