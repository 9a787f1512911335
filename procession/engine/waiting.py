"""Why a run waits: the one reason a person is shown."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from procession.engine.document import DOCUMENT_FORMAT, Due

UNSERVED_AFTER = timedelta(minutes=10)  # without a live worker for the type, the action has failed


class Reason(StrEnum):
    """What a run waits for."""

    LEASE_HELD = "LeaseHeld"  # the end of the attempt in flight
    RETRY_AT = "RetryAt"  # the end of a back-off
    NO_WORKER = "NoWorker"  # a worker that serves the type
    PAUSED = "Paused"  # a worker that is allowed to claim
    DUE = "Due"  # a free slot


class LiveWorker(Struct, frozen=True, kw_only=True):
    """What a live worker said of itself."""

    action_types: frozenset[str]
    document_format: int
    claims: bool


class Waiting(Struct, frozen=True, kw_only=True):
    """The reason, and what goes with it."""

    reason: Reason
    ordinal: int | None  # of an undo, the action it undoes; None where that cannot be read
    until: datetime | None = None
    action_type: str | None = None


def waiting(  # noqa: PLR0913 - what the reasons ask for
    found: Due | None,
    now: datetime,
    *,
    workers: Sequence[LiveWorker],
    lease_until: datetime | None = None,
    in_flight: int | None = None,
    no_worker_since: datetime | None = None,
    document_format: int = DOCUMENT_FORMAT,
) -> Waiting | None:
    """The first reason that applies; none once the run is finished, when nothing is held or due."""
    if lease_until is not None:
        return Waiting(reason=Reason.LEASE_HELD, ordinal=in_flight, until=lease_until)
    if found is None:
        return None
    if found.at > now:
        return Waiting(reason=Reason.RETRY_AT, ordinal=found.ordinal, until=found.at)
    if not any(
        found.type in one.action_types and one.document_format >= document_format for one in workers
    ):
        seen_at = no_worker_since if no_worker_since and no_worker_since <= now else None
        until = seen_at and seen_at + UNSERVED_AFTER
        return Waiting(
            reason=Reason.NO_WORKER, ordinal=found.ordinal, until=until, action_type=found.type
        )
    claimed = any(one.claims for one in workers)
    return Waiting(reason=Reason.DUE if claimed else Reason.PAUSED, ordinal=found.ordinal)
