"""The answers that repeats of a POST are given: kept for a day, sealed, under the caller's key.

Whoever comes first holds the key while it answers, and keeps its answer in the transaction that
does what was asked: a commit of which nobody heard has kept both, or neither. A process that dies
leaves the key held; after ten minutes it is anybody's, and the first one can do nothing under it.
"""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from procession.engine.access import Actor
from procession.engine.errors import ConflictError, IdempotencyKeyReusedError
from procession.queue.pool import Connection
from procession.queue.sealing import Place, Ring, UnreadableError

KEPT = timedelta(hours=24)
HELD = timedelta(minutes=10)  # far above what any request may take
LONGEST = 65_536  # bytes of an answer
OWNER = "idempotency"
AGAIN = 3  # looks at a key that is freed between two of them


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with a key, as the table knows it."""

    tenant: str
    request: bytes
    body: bytes
    holder: UUID = field(default_factory=uuid4)

    @property
    def place(self) -> Place:
        return Place(self.tenant, OWNER, self.request.hex())

    @property
    def values(self) -> dict[str, object]:
        return {
            "tenant": self.tenant,
            "request": self.request,
            "body": self.body,
            "holder": self.holder,
        }


def asked(tenant: str, actor: Actor, route: str, key: str, body: bytes) -> Asked:
    """The request of this caller. Only digests are kept: a path may be long, or odd."""
    who = json.dumps([actor.kind, actor.id, route, key]).encode()
    return Asked(tenant, hashlib.sha256(who).digest(), hashlib.sha256(body).digest())


class Answer(Struct, frozen=True):
    """What was answered."""

    status: int
    headers: list[tuple[str, str]]
    body: str


HOLD = """
    insert into idempotency as kept (tenant, request, body, holder)
    values (%(tenant)s, %(request)s, %(body)s, %(holder)s)
    on conflict (tenant, request) do update
    set body = excluded.body, holder = excluded.holder, since = clock_timestamp(), answer = null
    where kept.since <= clock_timestamp()
          - case when kept.answer is null then %(held)s::interval else %(kept)s::interval end
"""

FIND = """
    select body = %(body)s, answer from idempotency
    where tenant = %(tenant)s and request = %(request)s
"""


async def hold(conn: Connection, one: Asked, ring: Ring) -> Answer | None:
    """The answer that is kept; None when there is none, and it is this request's to give."""
    for _ in range(AGAIN):
        if (await conn.execute(HOLD, {**one.values, "held": HELD, "kept": KEPT})).rowcount:
            return None
        found = await (await conn.execute(FIND, one.values)).fetchone()
        if found is not None:
            return _kept(one, ring, is_same=found[0], answer=found[1])
    raise ConflictError("idempotency-key-in-progress")


def _kept(one: Asked, ring: Ring, *, is_same: bool, answer: str | None) -> Answer:
    if not is_same:
        raise IdempotencyKeyReusedError("Another body came with it first.")
    if answer is None:
        raise ConflictError("idempotency-key-in-progress")
    try:
        return msgspec.json.decode(ring.open(answer, one.place), type=Answer)
    except UnreadableError:
        detail = "Its answer is sealed by a key that is gone. Send another one to have it done."
        raise IdempotencyKeyReusedError(detail) from None


KEEP = """
    update idempotency set answer = %(answer)s, since = clock_timestamp()
    where tenant = %(tenant)s and request = %(request)s and holder = %(holder)s and answer is null
"""


async def keep(conn: Connection, one: Asked, ring: Ring, answer: Answer) -> bool:
    """Keep what was answered; False when the key is not held any more."""
    sealed = ring.seal(msgspec.json.encode(answer).decode(), one.place)
    return bool((await conn.execute(KEEP, {**one.values, "answer": sealed})).rowcount)


# While a commit that has kept an answer is on its way, its row is locked: this waits for the end.
FREE = """
    delete from idempotency
    where tenant = %(tenant)s and request = %(request)s and holder = %(holder)s and answer is null
"""


async def free(conn: Connection, one: Asked) -> None:
    """Let the next one with this key be the first."""
    await conn.execute(FREE, one.values)


# For the sweep. One that is held so long is nobody's either.
REMOVE_ANSWERS = """
    delete from idempotency
    where ctid = any (array(
        select ctid from idempotency
        where since < now() - %(older)s::interval
        order by since
        limit %(batch)s
        for update skip locked))
    returning tenant
"""
