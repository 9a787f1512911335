"""API keys: made once, shown once, kept as a digest; listed and revoked."""

import hashlib
import secrets
import string
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from procession.engine.access import BUILT_IN
from procession.engine.errors import Fault, NotFoundError, ValidationFailedError
from procession.queue.audit import By, Note, note
from procession.queue.named import part_of
from procession.queue.pool import Connection
from procession.queue.runs import Span

SIGNS = string.ascii_letters + string.digits
ID_LENGTH, SECRET_LENGTH = 12, 43  # 43 of 62 signs are 256 bits


@dataclass(frozen=True, slots=True)
class NewKey:
    """What a key is to be."""

    name: str
    role: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is kept, without its secret."""

    id: str
    name: str
    role: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key, and what its bearer shows: never to be had again."""

    key: Key
    secret: str


# The role is held in share mode, so that it is not deleted meanwhile.
HOLD_ROLE = """
    select (select true from role where tenant = %(tenant)s and name = %(role)s for share),
           %(expires_at)s::timestamptz <= clock_timestamp()
"""

CREATE = """
    insert into api_key (tenant, id, name, role, secret_digest, expires_at)
    values (%(tenant)s, %(id)s, %(name)s, %(role)s, %(digest)s, %(expires_at)s)
    returning id, name, role, created_at, expires_at, revoked_at, last_used_at
"""


async def create_key(conn: Connection, tenant: str, new: NewKey, by: By) -> CreatedKey:
    """Make a key. Its secret is in the answer and nowhere else: only a digest is kept."""
    key_id, secret = _signs(ID_LENGTH), _signs(SECRET_LENGTH)
    values = {
        "tenant": tenant,
        "id": key_id,
        "name": new.name,
        "role": new.role,
        "digest": hashlib.sha256(secret.encode()).digest(),
        "expires_at": new.expires_at,
    }
    async with conn.transaction(), conn.cursor(row_factory=class_row(Key)) as cursor:
        held = await (await conn.execute(HOLD_ROLE, values)).fetchone()
        assert held is not None  # a select without a table
        faults: list[Fault] = []
        if not held[0] and new.role not in BUILT_IN:
            faults.append(Fault("role", "is not a role of this tenant"))
        if held[1]:
            faults.append(Fault("expiresAt", "must be in the future"))
        if faults:
            raise ValidationFailedError(faults)
        key = await (await cursor.execute(CREATE, values)).fetchone()
        assert key is not None  # an insert that did not raise
        await note(conn, tenant, by, _note("key.created", key))
    return CreatedKey(key, f"prc_{key_id}_{secret}")


def _signs(length: int) -> str:
    return "".join(secrets.choice(SIGNS) for _ in range(length))


def _note(action: str, key: Key) -> Note:
    return Note(action, "ApiKey", key.id, {"name": key.name, "role": key.role})


PAGE = """
    select total.count, part.*
    from (select count(*) from api_key where tenant = %(tenant)s) as total
    left join lateral (
        select id, name, role, created_at, expires_at, revoked_at, last_used_at
        from api_key where tenant = %(tenant)s
        order by created_at desc, id offset %(offset)s limit %(limit)s
    ) as part on true
    order by created_at desc, id
"""


async def page(conn: Connection, tenant: str, span: Span) -> tuple[list[Key], int]:
    """Part of the keys, the newest first, and how many there are."""
    rows, total = await part_of(conn, PAGE, {"tenant": tenant, **span.values})
    return [Key(**{name: row[name] for name in Key.__slots__}) for row in rows], total


REVOKE = """
    update api_key set revoked_at = clock_timestamp()
    where tenant = %(tenant)s and id = %(id)s and revoked_at is null
    returning id, name, role, created_at, expires_at, revoked_at, last_used_at
"""

EXISTS = "select from api_key where tenant = %(tenant)s and id = %(id)s"


async def revoke_key(conn: Connection, tenant: str, key_id: str, by: By) -> None:
    """Make the key useless from its next request on. A second time changes nothing."""
    named = {"tenant": tenant, "id": key_id}
    async with conn.transaction(), conn.cursor(row_factory=class_row(Key)) as cursor:
        key = await (await cursor.execute(REVOKE, named)).fetchone()
        if key is not None:
            await note(conn, tenant, by, _note("key.revoked", key))
        elif not (await conn.execute(EXISTS, named)).rowcount:
            raise NotFoundError("key")
