"""Giving a new capability to the roles that were there before it: once, and noted as done.

A tenant's own roles only: what built-in roles hold is in the code, whatever is stored. A grant that
is taken away later stays away, and roles that are made later are left as they were made.
"""

from collections.abc import Mapping

from procession.engine.access import BUILT_IN, GRANTS
from procession.queue.pool import Connection

DONE = "select name from granting_rule"

# gen_random_uuid() as the id, since a statement makes as many entries as it finds roles.
GRANT = """
    with rule as (
        insert into granting_rule (name) values (%(rule)s) on conflict (name) do nothing
        returning name
    ), granted as (
        update role set capabilities = array_append(role.capabilities, %(gives)s) from rule
        where %(holds)s = any (role.capabilities)
          and not role.capabilities && array[%(gives)s, '*']
          and role.name <> all (%(built_in)s)
        returning role.tenant, role.name
    ), noted as (
        insert into audit (tenant, id, action, target_type, target_id, metadata)
        select tenant, gen_random_uuid(), 'role.granted', 'Role', name,
               jsonb_build_object('name', name, 'rule', %(rule)s::text, 'removed', '[]'::jsonb,
                                  'added', jsonb_build_array(%(gives)s::text))
        from granted
    )
    select tenant, name from granted
"""


async def grant(conn: Connection) -> Mapping[str, list[tuple[str, str]]]:
    """Do what is not done yet; the roles that each rule has found, by tenant and name."""
    done = {name for (name,) in await (await conn.execute(DONE)).fetchall()}
    found: dict[str, list[tuple[str, str]]] = {}
    for rule in (one for one in GRANTS if one.name not in done):
        values = {"rule": rule.name, "gives": rule.gives, "holds": rule.holds}
        cursor = await conn.execute(GRANT, values | {"built_in": list(BUILT_IN)})
        found[rule.name] = [(tenant, name) for tenant, name in await cursor.fetchall()]
    return found
