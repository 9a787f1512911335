"""What this process holds, and keeping it: all leases are renewed together, or given up.

The event loop adds and forgets claims; the keeper's thread reads them to renew. Whatever loses its
lease is cancelled, and records nothing.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic

from psycopg import Connection, Error, connect
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from procession.queue.moments import bear_with_any
from procession.queue.pool import Database
from procession.queue.types import Claim, about

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=15)  # from a claim or a renewal; the statements say it too
SELF_STOP = timedelta(seconds=10)  # without a renewal a worker cancels its own actions

SyncConnection = Connection[TupleRow]
Unreachable = Error  # what a statement of the keeper raises
Locked = LockNotAvailable  # or this, when somebody else has locked a row for longer than WAIT
WAIT = 1  # seconds


def connection(database: Database) -> SyncConnection:
    """One for a thread of its own. A server that went away is noticed well before a lease ends."""
    conn = connect(
        replace(database, lock_timeout=WAIT).conninfo,
        autocommit=True,
        connect_timeout=min(database.connect_timeout, 5),
        keepalives_idle=3,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=5000,
    )
    bear_with_any(conn)
    return conn


@dataclass(frozen=True, slots=True)
class Renewal:
    """The last renewal that worked, what it renewed, and what it passed over."""

    at: float  # when it was begun
    of: frozenset[int] = frozenset()  # tokens; what was claimed meanwhile is none of them
    behind: Mapping[int, float] = field(default_factory=dict[int, float])  # since when, by token


class Held:
    """The claims of this process, from their lease to their outcome."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._tasks: dict[int, asyncio.Task[object]] = {}
        self._lost: set[int] = set()
        self._renewal = Renewal(monotonic())

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claims: Iterable[Claim]) -> None:
        """These were leased."""
        self._claims.update({one.token: one for one in claims})

    def begin(self, token: int, task: asyncio.Task[object]) -> Claim | None:
        """The claim that this task performs; None when its lease was lost before it began."""
        claim = self._claims.get(token)
        if claim is None or token in self._lost or self._lapses(claim):
            return None
        self._tasks[token] = task
        return claim

    def unbegun(self) -> list[Claim]:
        """What was leased and is held still, though no task performs it."""
        return [
            one
            for one in self.claims()
            if one.token not in self._tasks and one.token not in self._lost
        ]

    def forget(self, token: int) -> None:
        """It was recorded, given back or lost."""
        self._claims.pop(token, None)
        self._tasks.pop(token, None)
        self._lost.discard(token)

    def is_lost(self, token: int) -> bool:
        """Whether the lease is gone while the action goes on: nothing of it is recorded."""
        return token in self._lost

    def claims(self) -> list[Claim]:
        """What is held now. One step of the interpreter, so that a thread may ask."""
        return list(self._claims.values())

    @property
    def renewed_at(self) -> float:
        """When the last renewal that worked was begun."""
        return self._renewal.at

    def renewed(self, at: float, of: Iterable[int], behind: Iterable[int] = ()) -> None:
        """These were renewed but for some, whose rows were locked. A thread may say so."""
        last = self._renewal
        kept = {one: last.behind.get(one, last.at) for one in behind}
        self._renewal = Renewal(at, frozenset(of), kept)

    def lose(self, tokens: Iterable[int], why: str = "its lease is gone") -> None:
        """Cancel what goes on under these tokens, and say so of each: no outcome tells of it."""
        for token in tokens:
            if (one := self._claims.get(token)) and token not in self._lost:
                self._lost.add(token)
                _say(one, why)
                if task := self._tasks.get(token):
                    task.cancel()

    def fence(self) -> None:
        """Cancel what has not been renewed for so long that its lease may end."""
        lapsing = [
            one.token for one in self.claims() if one.token not in self._lost and self._lapses(one)
        ]
        self.lose(lapsing, "its lease could not be renewed")

    def _lapses(self, one: Claim) -> bool:
        last = self._renewal
        renewed_at = last.at if one.token in last.of else one.asked_at
        known = max(last.behind.get(one.token, renewed_at), one.asked_at)
        return known < monotonic() - SELF_STOP.total_seconds()


def _say(one: Claim, why: str) -> None:
    before = about.set(one.about)
    what = "The undo of action" if one.undo else "Action"
    log.warning("%s %d %s is cancelled: %s", what, one.ordinal, one.type, why)
    about.reset(before)


# A row that somebody else has locked is passed over: the others must not wait for it. What is left
# of the claims is read as it was before: under its lease still, or gone.
RENEW = """
    with held as materialized (
        select * from unnest(%(tenants)s::text[], %(ids)s::uuid[], %(tokens)s::bigint[])
                      as held (tenant, id, token)
    ), picked as materialized (
        select run.tenant, run.id, held.token
        from held join run on run.tenant = held.tenant and run.id = held.id
        where run.lease_token = held.token and run.lease_until > clock_timestamp()
        for no key update of run skip locked
    ), renewed as (
        update run set lease_until = clock_timestamp() + interval '15 seconds'
        from picked
        where run.tenant = picked.tenant and run.id = picked.id and run.lease_token = picked.token
        returning run.lease_token
    )
    select token,
           exists (select from run
                   where run.tenant = held.tenant and run.id = held.id
                     and run.lease_token = held.token and run.lease_until > clock_timestamp())
    from held where not exists (select from renewed where lease_token = token)
"""


@dataclass(frozen=True, slots=True)
class Unrenewed:
    """The tokens that a renewal left out."""

    gone: set[int] = field(default_factory=set[int])  # held no more
    behind: set[int] = field(default_factory=set[int])  # somebody else has locked their rows


def renew(conn: SyncConnection, claims: list[Claim]) -> Unrenewed:
    """Renew these leases, but for those that cannot be renewed now."""
    if not claims:
        return Unrenewed()
    claims = sorted(claims, key=lambda one: (one.tenant.slug, one.id))
    cursor = conn.execute(
        RENEW,
        {
            "tenants": [one.tenant.slug for one in claims],
            "ids": [one.id for one in claims],
            "tokens": [one.token for one in claims],
        },
    )
    left: list[tuple[int, bool]] = cursor.fetchall()
    behind = {token for token, is_live in left if is_live}
    return Unrenewed({token for token, _ in left} - behind, behind)
