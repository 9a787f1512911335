"""Roles of a tenant: its own, and what it added to the built-in ones."""

from dataclasses import dataclass

from psycopg.rows import TupleRow

from procession.engine.access import ALL, BUILT_IN, CAPABILITIES
from procession.engine.errors import ConflictError, NotFoundError
from procession.queue.audit import By, Note, note
from procession.queue.pool import Connection


@dataclass(frozen=True, slots=True)
class Role:
    """A role and what it holds."""

    name: str
    capabilities: tuple[str, ...]

    @property
    def is_built_in(self) -> bool:
        return self.name in BUILT_IN


def _role(name: str, stored: frozenset[str]) -> Role:
    held = stored | BUILT_IN.get(name, frozenset())
    return Role(name, tuple(one for one in (ALL, *CAPABILITIES) if one in held))


ROLES = "select name, capabilities from role where tenant = %(tenant)s"


async def roles(conn: Connection, tenant: str) -> list[Role]:
    """All roles of the tenant, by name. There are few."""
    rows: list[TupleRow] = await (await conn.execute(ROLES, {"tenant": tenant})).fetchall()
    stored = {name: frozenset[str]() for name in BUILT_IN} | {
        row[0]: frozenset[str](row[1]) for row in rows
    }
    return [_role(name, held) for name, held in sorted(stored.items())]


# Locks the role, which it makes where there is none: of two who make it at once the second sees
# what the first has made. xmax is 0 in a row that this statement inserted.
HOLD = """
    insert into role as kept (tenant, name, capabilities)
    values (%(tenant)s, %(name)s, '{}')
    on conflict (tenant, name) do update set capabilities = kept.capabilities
    returning capabilities, xmax = 0
"""

SAVE = """
    update role set capabilities = %(capabilities)s where tenant = %(tenant)s and name = %(name)s
"""


async def save_role(
    conn: Connection, tenant: str, name: str, capabilities: frozenset[str], by: By
) -> tuple[Role, bool]:
    """Make the role, or replace what it holds; and whether it is new.

    A built-in role holds its own capabilities whatever is saved; what is beyond them is added.
    """
    own = BUILT_IN.get(name, frozenset())
    wanted = {"tenant": tenant, "name": name}
    async with conn.transaction():
        row = await (await conn.execute(HOLD, wanted)).fetchone()
        assert row is not None  # it is there now
        before = own | frozenset[str](row[0])
        after = own | capabilities
        is_new = row[1] and name not in BUILT_IN
        if is_new or before != after:
            await conn.execute(SAVE, {**wanted, "capabilities": sorted(after - own)})
            change = {"added": sorted(after - before), "removed": sorted(before - after)}
            await note(conn, tenant, by, Note("role.saved", "Role", name, {"name": name, **change}))
    return _role(name, after), is_new


LOCK = "select capabilities from role where tenant = %(tenant)s and name = %(name)s for update"

IN_USE = """
    select from api_key
    where tenant = %(tenant)s and role = %(name)s and revoked_at is null
      and coalesce(expires_at > now(), true)
    limit 1
"""

DELETE = "delete from role where tenant = %(tenant)s and name = %(name)s"


async def delete_role(conn: Connection, tenant: str, name: str, by: By) -> None:
    """Take a role away that no key holds which still works."""
    if name in BUILT_IN:
        raise ConflictError("role-built-in")
    named = {"tenant": tenant, "name": name}
    async with conn.transaction():
        row = await (await conn.execute(LOCK, named)).fetchone()
        if row is None:
            raise NotFoundError("role")
        if (await conn.execute(IN_USE, named)).rowcount:
            raise ConflictError("role-in-use")
        await conn.execute(DELETE, named)
        gone = {"name": name, "added": [], "removed": sorted(row[0])}
        await note(conn, tenant, by, Note("role.deleted", "Role", name, gone))
