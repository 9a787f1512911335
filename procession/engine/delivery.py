"""What the delivery log keeps of a call: enough to see what went out, and nothing that lets in.

The address is kept as its origin, a header whose name looks like a credential's without its value.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from uuid import UUID

from msgspec import Struct

from procession.engine.connector import IDEMPOTENCY_KEY
from procession.engine.masking import mask
from procession.engine.redaction import MASK, redact, storable

_SECRET_HEADER = re.compile(r"auth|cookie|signature|key|token|secret", re.IGNORECASE)
_DECODER = codecs.getincrementaldecoder("utf-8")
LEAST_SECRET = 4  # signs of a header's value that is looked for; `X-Author: e` would spoil a text
BODY_KEPT = 4_096  # bytes, and then signs


class Delivery(Struct, frozen=True, kw_only=True):
    """One attempt of an action that calls a receiver."""

    delivery_id: UUID
    method: str
    url: str  # its origin
    request_headers: dict[str, str]
    requests_sent: int
    duration_ms: int
    response_status: int | None = None  # None: no answer came
    response_body: str | None = None
    error: str | None = None
    connector_slug: str | None = None
    request_slug: str | None = None


@lru_cache(maxsize=256)
def is_secret_header(name: str) -> bool:
    """Whether what stands in this header may be a credential."""
    return _SECRET_HEADER.search(name) is not None


def masked(headers: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """The headers as they may be kept."""
    known = [one for one in secrets if one]
    return {name: _shown(name, value, known) for name, value in headers.items()}


def _shown(name: str, value: str, known: list[str]) -> str:
    if is_secret_header(name):
        return MASK
    if any(one in value for one in known):  # they are ours: nobody has encoded anything in them
        value = mask(value, known)
    return storable(value)


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """What a receiver that sends back its request would give away.

    The action's key lets nobody in: it is the id of the run, which the row has.
    """
    return tuple(
        value
        for name, value in headers.items()
        if len(value) >= LEAST_SECRET and is_secret_header(name) and name != IDEMPOTENCY_KEY
    )


def excerpt(content: bytes, secrets: Iterable[str]) -> str | None:
    """What is kept of a response's body; None where there is nothing.

    Every body counts as cut: one may end early without a sign of it, by a wrong length or a close.
    """
    if not content:
        return None
    text = _DECODER("surrogateescape").decode(content[:BODY_KEPT])  # without half a sign at its end
    text = mask(text, secrets, is_cut=True)
    # only now, or each byte of an image would be an escape to undo in search of secrets
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return storable(text)[:BODY_KEPT]


def reason(text: str | None, secrets: Iterable[str]) -> str | None:
    """An error as it may be kept."""
    return None if text is None else redact(mask(text, secrets))
