"""Whether an API and a worker work in the same schema: noted, so that they refuse to when not.

That they belong together is told by a key that both hold. Here alone the schemas of a database
look at each other: one at a time, so that of two that begin together one finds the other.
"""

from collections.abc import Sequence
from typing import Literal

from psycopg.sql import SQL, Identifier

from procession.queue.pool import Connection

Role = Literal["api", "worker"]
LOCK_SPACE = 0x50524650  # "PRFP": the same in every schema

COUNTERPART: dict[Role, Role] = {"api": "worker", "worker": "api"}

TAKE_TURNS = "select pg_advisory_xact_lock(%(space)s, 0)"

NOTE = """
    insert into fingerprint (process, keys) values (%(process)s, %(keys)s::bytea[])
    on conflict (process) do update set keys = excluded.keys, noted_at = clock_timestamp()
    where fingerprint.keys <> excluded.keys
"""

# One that is called so, and is not ours, has not these columns.
SCHEMAS = """
    select space.nspname
    from pg_class as class
    join pg_namespace as space on space.oid = class.relnamespace
    join pg_attribute as keys
      on keys.attrelid = class.oid and keys.attname = 'keys' and keys.atttypid = 'bytea[]'::regtype
    join pg_attribute as process
      on process.attrelid = class.oid and process.attname = 'process'
     and process.atttypid = 'text'::regtype
    where class.relname = 'fingerprint' and class.relkind = 'r'
      and has_schema_privilege(space.oid, 'usage') and has_table_privilege(class.oid, 'select')
    order by 1
"""

SHARES_A_KEY = SQL("""
    select from {}.fingerprint where process = %(process)s and keys && %(keys)s::bytea[]
""")


async def meet(conn: Connection, schema: str, process: Role, keys: Sequence[bytes]) -> str | None:
    """Note who begins; or the schema that its counterpart works in, when that is another one."""
    async with conn.transaction():
        await conn.execute(TAKE_TURNS, {"space": LOCK_SPACE})
        if found := await elsewhere(conn, schema, COUNTERPART[process], keys):
            return found
        await conn.execute(NOTE, {"process": process, "keys": list(keys)})
    return None


async def elsewhere(
    conn: Connection, schema: str, process: Role, keys: Sequence[bytes]
) -> str | None:
    """The schema that this process works in with one of these keys, when not in this one too."""
    found: list[str] = []
    for (name,) in await (await conn.execute(SCHEMAS)).fetchall():
        theirs = SHARES_A_KEY.format(Identifier(name))
        if (await conn.execute(theirs, {"process": process, "keys": list(keys)})).rowcount:
            found.append(name)
    return None if schema in found else next(iter(found), None)
