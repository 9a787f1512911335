"""What the delivery log is told of a call: one row for an attempt, however the attempt ends.

Nothing of it holds a secret: the address is cut to its origin, headers that look like credentials
lose their values, and what the receiver sends back is searched for both.
"""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID, uuid5

from procession.actions.base import Kept
from procession.engine.delivery import Delivery, excerpt, masked, reason, secrets_of
from procession.outbound.answer import Answer
from procession.outbound.faults import Fault
from procession.outbound.guard import origin
from procession.outbound.headers import with_ours

DELIVERIES = UUID("f3f8c2a4-0c7e-4d1b-9a55-6f2f3f0d7b19")  # fixed: receivers know repeats by it
CUT_OFF = "The attempt was cut off before an answer came."
UNSENT = "The call could not be made."


def delivery_id(idempotency_key: str) -> str:
    """The webhook-id: the same on every attempt of one action."""
    return str(uuid5(DELIVERIES, idempotency_key))


@dataclass(slots=True, kw_only=True)
class Call:
    """A call on its way, with what it may not give away."""

    delivery_id: str
    method: str
    url: str
    headers: dict[str, str]  # as given; those of the last try are added
    secrets: tuple[str, ...] = ()
    connector_slug: str | None = None
    request_slug: str | None = None
    began: float = field(default_factory=monotonic)
    tries: int = 0
    answer: Answer | None = None
    error: str | None = None

    def tried(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of one more try."""
        self.tries += 1
        self.headers.update(headers)
        return headers

    def delivery(self, fault: Fault | None = None) -> Delivery:
        """What is kept of it."""
        headers = with_ours(self.headers)
        answer, error = self.answer, fault.told if fault else self.error
        secrets = (*self.secrets, *secrets_of(headers)) if answer or error else ()
        return Delivery(
            delivery_id=UUID(self.delivery_id),
            method=self.method,
            url=origin(self.url),
            request_headers=masked(headers, self.secrets),
            requests_sent=0 if fault and fault.is_by_host else self.tries,
            duration_ms=round((monotonic() - self.began) * 1000),
            response_status=answer.status_code if answer else fault.status if fault else None,
            response_body=excerpt(answer.content, secrets) if answer else None,
            error=reason(error, secrets),
            connector_slug=self.connector_slug,
            request_slug=self.request_slug,
        )


@contextmanager
def on_record(kept: Kept, call: Call) -> Generator[Call]:
    """Log the call, answered or not, once it is over. Who was answered sets what to say of it."""
    call.error = UNSENT
    fault: Fault | None = None
    try:
        yield call
    except Fault as raised:
        fault = raised
        raise
    except asyncio.CancelledError:
        call.error = CUT_OFF
        raise
    finally:
        kept.deliveries.append(call.delivery(fault))
