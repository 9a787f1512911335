"""Connectors: the row is locked while a change is decided, so a secret stays where it was put."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import msgspec
from msgspec import Struct
from psycopg.errors import ForeignKeyViolation
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from procession.engine.connector import Connector, Sent
from procession.engine.errors import ConflictError, NotFoundError
from procession.queue.audit import By, Note, note
from procession.queue.named import part_of, remove, row_of
from procession.queue.pool import Connection
from procession.queue.runs import Span
from procession.queue.sealing import Place, Ring, UnreadableError


class Kept(Struct, frozen=True, kw_only=True):
    """A connector as it is kept."""

    tenant: str
    slug: str
    connector: Connector
    secrets: dict[str, str]  # sealed
    created_at: datetime
    updated_at: datetime

    def opened(self, ring: Ring) -> dict[str, str]:
        """The secrets in plain; raises UnreadableError."""
        return {
            name: ring.open(sealed, place_of(self.tenant, self.slug, name))
            for name, sealed in self.secrets.items()
        }


def place_of(tenant: str, slug: str, name: str) -> Place:
    """Where a secret of a connector is kept."""
    return Place(tenant, f"connector {slug}", name)


def kept_of(row: DictRow) -> Kept:
    """The connector of a row whose documents are still text."""
    return Kept(
        tenant=row["tenant"],
        slug=row["slug"],
        connector=msgspec.json.decode(row["definition"], type=Connector),
        secrets=msgspec.json.decode(row["secrets"], type=dict[str, str]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


ONE = """
    select tenant, slug, definition::text, secrets::text, created_at, updated_at
    from connector where tenant = %(tenant)s and slug = %(slug)s
"""


async def one(conn: Connection, tenant: str, slug: str) -> Kept | None:
    return await _read(conn, tenant, slug, locked=False)


LOCK = """
    select tenant, slug, definition::text, secrets::text, created_at, updated_at
    from connector where tenant = %(tenant)s and slug = %(slug)s
    for no key update
"""


async def _read(conn: Connection, tenant: str, slug: str, *, locked: bool) -> Kept | None:
    row = await row_of(conn, LOCK if locked else ONE, {"tenant": tenant, "slug": slug})
    return None if row is None else kept_of(row)


INSERT = """
    insert into connector (tenant, slug, definition, secrets)
    values (%(tenant)s, %(slug)s, %(definition)s, %(secrets)s)
    on conflict do nothing
"""

REPLACE = """
    update connector set definition = %(definition)s, secrets = %(secrets)s,
           updated_at = clock_timestamp()
    where tenant = %(tenant)s and slug = %(slug)s
"""


@dataclass(frozen=True, slots=True)
class Saving:
    """A connector that somebody saves."""

    tenant: str
    slug: str
    sent: Sent
    ring: Ring

    def secrets(self, stored: Kept | None) -> dict[str, str]:
        """What is to be kept of the secrets; raises where they must be sent again."""
        before: Mapping[str, str] = stored.secrets if stored else {}
        kept = self.sent.kept(stored.connector if stored else None, tuple(before))
        made = {name: before[name] for name in kept}
        for name, secret in self.sent.given.items():
            if secret:
                made[name] = self.ring.resealed(secret, before.get(name), self._place(name))
        return made

    def renewed(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """The same, sealed by the first key as far as they can be read."""
        made = dict(secrets)
        for name, sealed in secrets.items():
            with suppress(UnreadableError):
                made[name] = self.ring.renewed(sealed, self._place(name))
        return made

    def _place(self, name: str) -> Place:
        return place_of(self.tenant, self.slug, name)


async def save(conn: Connection, saving: Saving, by: By) -> tuple[Kept, bool]:
    """Make it or replace it; and whether it is new. Saving what is there already does nothing."""
    tenant, slug, wanted = saving.tenant, saving.slug, saving.sent.connector
    while True:
        async with conn.transaction():
            before = await _read(conn, tenant, slug, locked=True)
            secrets = saving.secrets(before)
            if before and (before.connector, before.secrets) == (wanted, secrets):
                return before, False
            values = {
                "tenant": tenant,
                "slug": slug,
                "definition": Jsonb(wanted, dumps=msgspec.json.encode),
                "secrets": Jsonb(saving.renewed(secrets)),
            }
            written = await conn.execute(REPLACE if before else INSERT, values)
            if written.rowcount:
                await note(conn, tenant, by, _noted("saved", slug))
                after = await _read(conn, tenant, slug, locked=False)
                assert after is not None, "its row is locked"
                return after, before is None
        # somebody else has made it since: it is decided anew


def _noted(done: str, slug: str) -> Note:
    return Note(f"connector.{done}", "Connector", slug, {"slug": slug})


PAGE = """
    select total.count, part.*
    from (select count(*) from connector where tenant = %(tenant)s) as total
    left join lateral (
        select tenant, slug, definition::text, secrets::text, created_at, updated_at
        from connector where tenant = %(tenant)s
        order by slug offset %(offset)s limit %(limit)s
    ) as part on true
    order by slug
"""


async def page(conn: Connection, tenant: str, span: Span) -> tuple[list[Kept], int]:
    """Part of them, by slug, and how many there are."""
    rows, total = await part_of(conn, PAGE, {"tenant": tenant, **span.values})
    return [kept_of(row) for row in rows], total


DELETE = "delete from connector where tenant = %(tenant)s and slug = %(slug)s"


async def delete(conn: Connection, tenant: str, slug: str, by: By) -> None:
    """Take it away, unless a request names it: the foreign key decides, also against a race."""
    try:
        async with conn.transaction():
            named = {"tenant": tenant, "slug": slug}
            if not await remove(conn, DELETE, named, by, _noted("deleted", slug)):
                raise NotFoundError("connector")
    except ForeignKeyViolation:
        raise ConflictError("connector-in-use", "A request is sent through it.") from None
