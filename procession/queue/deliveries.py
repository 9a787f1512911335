"""The delivery log: what an attempt sent to a receiver, one row each.

The rows of an attempt are written by the statement that records it, and are not worth an outcome:
where they are in its way they are written after it, once, or not at all.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from time import monotonic

from msgspec import json
from msgspec.structs import asdict

from procession.engine.delivery import Delivery
from procession.queue.ids import uuid7
from procession.queue.outage import FAULTS
from procession.queue.pool import Pool
from procession.queue.types import Claim

log = logging.getLogger(__name__)

DELIVER = """
    insert into delivery
           (tenant, created_at, id, delivery_id, workflow_id, run_id, ordinal, attempt, event,
            method, url, request_headers, response_status, response_body, requests_sent,
            duration_ms, error, connector_slug, request_slug)
    select tenant, created_at, id, delivery_id, workflow_id, run_id, ordinal, attempt, event,
           method, url, request_headers, response_status, response_body, requests_sent,
           duration_ms, error, connector_slug, request_slug
    from jsonb_to_recordset(%(deliveries)s::jsonb) as sent (
        tenant text, created_at timestamptz, id uuid, delivery_id uuid, workflow_id uuid,
        run_id uuid, ordinal integer, attempt integer, event text, method text, url text,
        request_headers jsonb, response_status integer, response_body text, requests_sent integer,
        duration_ms integer, error text, connector_slug text, request_slug text)
    /* which */
    on conflict do nothing
"""
_encode = json.Encoder().encode


def rows_of(claim: Claim, deliveries: Iterable[Delivery]) -> list[bytes]:
    """The rows of an attempt that has just ended; one that makes none is left out."""
    rows: list[bytes] = []
    for one in deliveries:
        try:
            rows.append(_row(claim, one))
        except Exception as error:  # noqa: BLE001  an action may have sent of anything to anywhere
            log.warning("A delivery is not in the log: %s", type(error).__name__)
    return rows


def _row(claim: Claim, one: Delivery) -> bytes:
    return _encode(
        asdict(one)
        | {
            "tenant": claim.tenant.slug,
            "created_at": claim.now,
            "id": uuid7(),
            "workflow_id": claim.workflow_id,
            "run_id": claim.id,
            "ordinal": claim.ordinal,
            "attempt": claim.action.attempts,
            "event": claim.trigger,
        }
    )


def parameter(rows: Iterable[bytes]) -> str:
    """These rows as the statement takes them."""
    return f"[{b','.join(rows).decode()}]"


HELD_UP = 30.0  # seconds for which a log that was held up is in no outcome's way any more


class LogHeldUpError(Exception):
    """Outcomes were not written in time along with the rows of their deliveries.

    Who holds the whole log, to make an index of it, say, is waited for before the statement has
    begun: the time that it allows for a lock does not count yet.
    """


MOST = 1_000  # rows that wait; with a database that is away for long the oldest are given up
AT_ONCE = 50


class Apart:
    """Rows that missed the write of their outcome. `run` goes on until it is cancelled."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows = deque[bytes](maxlen=MOST)
        self._some = asyncio.Event()
        self._until = float("-inf")

    @property
    def stands_in(self) -> bool:
        """Whether all rows are written here, since the log was held up a short time ago."""
        return monotonic() < self._until

    def heed(self, error: Exception) -> None:
        """Take over for a while, if this is why outcomes cannot be written."""
        if isinstance(error, LogHeldUpError):
            self._until = monotonic() + HELD_UP

    def add(self, rows: Iterable[bytes]) -> None:
        """Write these once there is time."""
        self._rows.extend(rows)
        if self._rows:
            self._some.set()

    async def run(self) -> None:
        """Write what is added, as it comes."""
        while True:
            await self._some.wait()
            rows = [self._rows.popleft() for _ in range(min(AT_ONCE, len(self._rows)))]
            if not self._rows:
                self._some.clear()
            await self._write(rows)

    async def _write(self, rows: list[bytes]) -> None:
        try:
            async with self._pool.connection() as conn:
                await conn.execute(DELIVER, {"deliveries": parameter(rows)})
        except FAULTS as error:
            if len(rows) > 1:  # the others are not held up by the one that cannot be stored
                for row in rows:
                    await self._write([row])
                return
            log.warning("A delivery is not in the log: %s", type(error).__name__)
