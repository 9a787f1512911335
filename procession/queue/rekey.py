"""Writing every stored secret again under the first key, in batches, beside all that goes on.

What is under it already is left as it is, so it can be stopped and begun anew at any time. A secret
that a release kept in plain is sealed; one that no key opens is left, and told.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from procession.engine.credentials import SEALED, Pick, mapped
from procession.engine.workflow import Definition
from procession.queue.connectors import place_of
from procession.queue.pool import Connection
from procession.queue.sealing import Place, Ring, UnreadableError

BATCH = 100  # rows of one transaction


@dataclass(slots=True)
class Rekeyed:
    """What has come of it so far."""

    renewed: int = 0
    current: int = 0  # under the first key already
    unreadable: list[str] = field(default_factory=list[str])  # where they are
    left: list[str] = field(default_factory=list[str])  # written by a newer release


VERSIONS = """
    select tenant, workflow_id, version, definition::text from workflow_version
    where (tenant, workflow_id, version) > (%(tenant)s, %(workflow_id)s, %(version)s)
    order by tenant, workflow_id, version
    limit %(limit)s
    for no key update
"""

REWRITE = """
    update workflow_version as kept set definition = made.definition::json
    from unnest(%(tenants)s::text[], %(ids)s::uuid[], %(versions)s::int[], %(definitions)s::text[])
         as made (tenant, workflow_id, version, definition)
    where kept.tenant = made.tenant and kept.workflow_id = made.workflow_id
      and kept.version = made.version
"""

SECRETS = """
    select tenant, slug, secrets::text from connector
    where (tenant, slug) > (%(tenant)s, %(slug)s)
    order by tenant, slug
    limit %(limit)s
    for no key update
"""

# When it was changed stays as it is, and with it the tokens that were granted since.
RESEAL = """
    update connector as kept set secrets = made.secrets
    from unnest(%(tenants)s::text[], %(slugs)s::text[], %(secrets)s::jsonb[])
         as made (tenant, slug, secrets)
    where kept.tenant = made.tenant and kept.slug = made.slug
"""


@dataclass(frozen=True, slots=True)
class Rekey:
    """One walk over all that is kept."""

    ring: Ring
    pick: Pick  # of the credentials in a definition
    found: Rekeyed = field(default_factory=Rekeyed)

    async def run(self, conn: Connection) -> Rekeyed:
        """Do it, batch after batch."""
        async for _ in self.batches(conn):
            pass
        return self.found

    async def batches(self, conn: Connection) -> AsyncIterator[int]:
        """The same, telling how many rows each batch had; what was yielded is committed."""
        at: Mapping[str, object] = {"tenant": "", "workflow_id": UUID(int=0), "version": 0}
        while rows := await self._definitions(conn, at):
            at = dict(zip(at, rows[-1], strict=False))
            yield len(rows)
        at = {"tenant": "", "slug": ""}
        while rows := await self._connectors(conn, at):
            at = dict(zip(at, rows[-1], strict=False))
            yield len(rows)

    async def _definitions(self, conn: Connection, at: Mapping[str, object]) -> list[Any]:
        async with conn.transaction():
            cursor = await conn.execute(VERSIONS, {**at, "limit": BATCH})
            rows = await cursor.fetchall()
            changed = [(*row[:3], text) for row in rows if (text := self._definition(*row))]
            if changed:
                names = ("tenants", "ids", "versions", "definitions")
                await conn.execute(REWRITE, _columns(names, changed))
        return rows

    def _definition(self, tenant: str, workflow_id: UUID, version: int, text: str) -> str | None:
        """The definition's text with its credentials renewed; None when nothing is to be done."""
        before = msgspec.json.decode(text, type=Definition)
        whole = msgspec.json.decode(msgspec.json.encode(before))
        if whole != msgspec.json.decode(text):  # it holds what this release does not know
            self.found.left.append(f"{tenant}: workflow {workflow_id}, version {version}")
            return None

        def is_one(type_: str, name: str, value: str) -> bool:
            return self.pick(type_, name, value) or SEALED.fullmatch(value) is not None

        def renew(path: str, value: str) -> str:
            what = f"{tenant}: workflow {workflow_id}, version {version}, {path}"
            return self._renewed(value, Place(tenant, str(workflow_id), path), what)

        after = mapped(before, is_one, renew)
        return None if after == before else msgspec.json.encode(after).decode()

    async def _connectors(self, conn: Connection, at: Mapping[str, object]) -> list[Any]:
        async with conn.transaction():
            cursor = await conn.execute(SECRETS, {**at, "limit": BATCH})
            rows = await cursor.fetchall()
            changed = [(*row[:2], made) for row in rows if (made := self._secrets(*row))]
            if changed:
                await conn.execute(RESEAL, _columns(("tenants", "slugs", "secrets"), changed))
        return rows

    def _secrets(self, tenant: str, slug: str, text: str) -> Jsonb | None:
        before = msgspec.json.decode(text, type=dict[str, str])
        after = {
            name: self._renewed(
                value, place_of(tenant, slug, name), f"{tenant}: connector {slug}, {name}"
            )
            for name, value in before.items()
        }
        return None if after == before else Jsonb(after)

    def _renewed(self, value: str, place: Place, what: str) -> str:
        try:
            made = self.ring.renewed(value, place)
        except UnreadableError:
            self.found.unreadable.append(what)
            return value
        if made == value:
            self.found.current += 1
        else:
            self.found.renewed += 1
        return made


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, list[object]]:
    """Rows as the arrays of their columns."""
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
