"""Who may call: the keys of a tenant, its roles, and the tenants themselves."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from psycopg.errors import ReadOnlySqlTransaction
from psycopg.rows import class_row

from procession.queue.pool import Connection

FIND_KEY = """
    select key.tenant, key.id, key.name, key.role, key.secret_digest as digest,
           coalesce(role.capabilities, '{}') as stored,
           key.revoked_at is null and coalesce(key.expires_at > now(), true) as live,
           coalesce(key.last_used_at < date_trunc('minute', now()), true) as stale
    from api_key as key
    left join role on role.tenant = key.tenant and role.name = key.role
    where key.id = %(id)s
"""  # by the key alone: the tenant is what it is asked for


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key as it is kept, with what its role holds beside the built-in rights."""

    tenant: str
    id: str
    name: str
    role: str
    digest: bytes
    stored: list[str]
    live: bool
    stale: bool  # its last use is not noted in this minute yet


async def find_key(conn: Connection, key_id: str) -> FoundKey | None:
    async with conn.cursor(row_factory=class_row(FoundKey)) as cursor:
        return await (await cursor.execute(FIND_KEY, {"id": key_id})).fetchone()


TOUCH_KEY = """
    update api_key set last_used_at = date_trunc('minute', now())
    where tenant = %(tenant)s and id = %(id)s
      and coalesce(last_used_at < date_trunc('minute', now()), true)
"""


async def touch_key(conn: Connection, key: FoundKey) -> None:
    """Note the minute of its use. On a database that is only readable, reading goes on without."""
    try:
        await conn.execute(TOUCH_KEY, {"tenant": key.tenant, "id": key.id})
    except ReadOnlySqlTransaction:
        return


KNOWS_TENANT = "select from tenant where slug = %(tenant)s"


async def knows_tenant(conn: Connection, slug: str) -> bool:
    return (await conn.execute(KNOWS_TENANT, {"tenant": slug})).rowcount == 1


STORED_ROLES = """
    select role.name, role.capabilities
    from tenant
    left join role on role.tenant = tenant.slug and role.name = any(%(names)s)
    where tenant.slug = %(tenant)s
"""


async def stored_roles(
    conn: Connection, tenant: str, names: Collection[str]
) -> Mapping[str, list[str]] | None:
    """Those of these roles that the tenant has stored; None when there is no such tenant."""
    found = await conn.execute(STORED_ROLES, {"tenant": tenant, "names": list(names)})
    rows = await found.fetchall()
    return {name: held for name, held in rows if name is not None} if rows else None
