"""Giving out the keys that applications and people call with."""

import hashlib
import secrets
import string
from dataclasses import dataclass
from datetime import datetime

from procession.engine.access import BUILT_IN
from procession.queue.audit import By, Note, note
from procession.queue.pool import Connection

SIGNS = string.ascii_letters + string.digits
ID_SIGNS, SECRET_SIGNS = 12, 43


@dataclass(frozen=True, slots=True)
class NewKey:
    """Whose key is wanted, and what it may do."""

    tenant: str
    name: str
    role: str
    expires_at: datetime | None = None


class NoSuchError(Exception):
    """The key is wanted for something that does not exist. The message says for what."""


KNOWS = """
    select exists (select from tenant where slug = %(tenant)s),
           exists (select from role where tenant = %(tenant)s and name = %(role)s)
"""

ADD_KEY = """
    insert into api_key (tenant, id, name, role, secret_digest, expires_at)
    values (%(tenant)s, %(id)s, %(name)s, %(role)s, %(digest)s, %(expires_at)s)
"""


async def add_key(conn: Connection, wanted: NewKey, by: By) -> str:
    """The key itself, which is shown this once: only its digest is kept."""
    names = {"tenant": wanted.tenant, "role": wanted.role}
    known = await (await conn.execute(KNOWS, names)).fetchone()
    if not known or not known[0]:
        raise NoSuchError(f"There is no tenant {wanted.tenant}.")
    if not known[1] and wanted.role not in BUILT_IN:
        raise NoSuchError(f"There is no role {wanted.role} in the tenant {wanted.tenant}.")
    key, secret = _signs(ID_SIGNS), _signs(SECRET_SIGNS)
    kept = {
        "id": key,
        "name": wanted.name,
        "digest": hashlib.sha256(secret.encode()).digest(),
        "expires_at": wanted.expires_at,
    }
    async with conn.transaction():
        await conn.execute(ADD_KEY, names | kept)
        what = Note("key.created", "ApiKey", key, {"name": wanted.name, "role": wanted.role})
        await note(conn, wanted.tenant, by, what)
    return f"prc_{key}_{secret}"


def _signs(count: int) -> str:
    return "".join(secrets.choice(SIGNS) for _ in range(count))
