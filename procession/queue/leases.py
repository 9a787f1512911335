"""What this process holds, and keeping it: all leases are renewed together, or given up.

The event loop adds and forgets claims; the keeper's thread reads them to renew. Whatever loses its
lease is cancelled, and records nothing.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from time import monotonic

from psycopg import Connection, Error, connect
from psycopg.rows import TupleRow

from procession.queue.pool import Database
from procession.queue.types import Claim

LEASE = timedelta(seconds=15)  # from a claim or a renewal; the statements say it too
SELF_STOP = timedelta(seconds=10)  # without a renewal a worker cancels its own actions

SyncConnection = Connection[TupleRow]
Unreachable = Error  # what a statement of the keeper raises


def connection(database: Database) -> SyncConnection:
    """One for a thread of its own. A server that went away is noticed well before a lease ends."""
    return connect(
        database.conninfo,
        autocommit=True,
        connect_timeout=min(database.connect_timeout, 5),
        keepalives_idle=3,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=5000,
    )


class Held:
    """The claims of this process, from their lease to their outcome."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._tasks: dict[int, asyncio.Task[object]] = {}
        self._lost: set[int] = set()
        self.renewed_at = monotonic()  # when the last renewal that worked was begun

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claims: Iterable[Claim]) -> None:
        """These were leased."""
        self._claims.update({one.token: one for one in claims})

    def begin(self, token: int, task: asyncio.Task[object]) -> Claim | None:
        """The claim that this task performs; None when its lease was lost before it began."""
        claim = self._claims.get(token)
        if claim is not None:
            self._tasks[token] = task
        return claim

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

    def lose(self, tokens: Iterable[int]) -> None:
        """Cancel what goes on under these tokens."""
        for token in tokens:
            if token in self._claims and token not in self._lost:
                self._lost.add(token)
                if task := self._tasks.get(token):
                    task.cancel()

    def fence(self) -> int:
        """Cancel what has not been renewed for so long that its lease may end; how many."""
        limit = monotonic() - SELF_STOP.total_seconds()
        lapsing = [
            one.token
            for one in self.claims()
            if max(self.renewed_at, one.stopwatch) < limit and one.token not in self._lost
        ]
        self.lose(lapsing)
        return len(lapsing)


RENEW = """
    update run set lease_until = clock_timestamp() + interval '15 seconds'
    from unnest(%(tenants)s::text[], %(ids)s::uuid[], %(tokens)s::bigint[])
         as held (tenant, id, token)
    where run.tenant = held.tenant and run.id = held.id
      and run.lease_token = held.token and run.lease_until > clock_timestamp()
    returning run.lease_token
"""


def renew(conn: SyncConnection, claims: list[Claim]) -> set[int]:
    """Renew these leases; the tokens of those that are not held any more."""
    if not claims:
        return set()
    claims = sorted(claims, key=lambda one: (one.tenant.slug, one.id))
    cursor = conn.execute(
        RENEW,
        {
            "tenants": [one.tenant.slug for one in claims],
            "ids": [one.id for one in claims],
            "tokens": [one.token for one in claims],
        },
    )
    return {one.token for one in claims} - {token for (token,) in cursor.fetchall()}
