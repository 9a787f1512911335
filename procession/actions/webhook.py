"""Telling a receiver what happened, in a way that it can prove to be ours and drop a repeat of.

The body is made at the first attempt and kept before it is sent: every try and every attempt sends
the same bytes under the same id. Only fields that are Public leave.
"""

import re
import time
from collections.abc import Callable, Mapping

import msgspec
from typing_extensions import override

from procession.actions.answered import answered, unanswered
from procession.actions.base import Action, Context, Parameter
from procession.actions.logged import Call, delivery_id, on_record
from procession.engine.entry import Entry, public_data
from procession.engine.outcome import Failed, Outcome
from procession.engine.values import iso
from procession.outbound import spans
from procession.outbound.capture import EXCERPT
from procession.outbound.faults import Fault
from procession.outbound.signing import BadSecretError, keys_of, signature

PERMANENT = frozenset({400, 405, 406, 410, 411, 413, 414, 415, 422, 501})
_TRACEPARENT = re.compile(r"[0-9a-f]{2}(?:-[0-9a-f]+)+", re.ASCII)
_CORRELATION = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")


class Webhook(Action):
    """POST the entry, as far as it is public, to an address; signed when there is a secret."""

    parameters = (
        Parameter(
            "Url",
            required=True,
            description="Where to: an absolute http or https address",
            example="https://example.com/hooks/{{contentType}}",
        ),
        Parameter(
            "Secret",
            credential=True,
            description="One to three whsec_ secrets, separated by spaces",
            example="whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        ),
    )
    repeatable = True

    def __init__(self, *, allow_insecure_signed_urls: bool = False) -> None:
        self._allow_insecure = allow_insecure_signed_urls

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        url, secret = parameters.get("Url", ""), parameters.get("Secret", "").strip()
        if not url.lower().startswith(("http://", "https://")):
            return Failed("Url is no absolute http or https address.")
        if secret and not url.lower().startswith("https://") and not self._allow_insecure:
            return Failed("A signed webhook needs an https address.")
        try:
            keys = keys_of(secret) if secret else ()
        except BadSecretError:
            return Failed("Secret is not one to three whsec_ secrets.")
        return await _deliver(context, url, keys, known_as(secret))


async def _deliver(
    context: Context, url: str, keys: tuple[bytes, ...], secrets: tuple[str, ...]
) -> Outcome:
    id_ = delivery_id(context.idempotency_key)
    told = context.kept.body
    if told is None:
        told = body_of(context)
        await context.kept.put(told)
    body = told.encode()
    headers, stamped = _headers(context), _stamp(id_, keys, body, context.traceparent)
    call = Call(delivery_id=id_, method="POST", url=url, headers=dict(headers), secrets=secrets)
    try:
        with on_record(context.kept, call):
            answer = call.answer = await context.http.post(
                url,
                headers=headers,
                each_try=lambda: call.tried(stamped()),
                content=body,
                capture=EXCERPT,
                resend=True,  # its receiver can tell a repeat
            )
            outcome = outcome_of(answer.status_code)
            call.error = outcome.error
    except Fault as fault:
        return unanswered(fault)
    return outcome


def outcome_of(status: int) -> Outcome:
    """What the receiver's answer means."""
    permanent = 300 <= status < 400 or status in PERMANENT  # noqa: PLR2004
    return answered(status, retryable=not permanent)


def known_as(secret: str) -> tuple[str, ...]:
    """The texts that a receiver may know the signing secrets by."""
    each = secret.split()
    return (*each, *(one.removeprefix("whsec_") for one in each))


def body_of(context: Context) -> str:
    """What is told of the entry, in an order that never changes."""
    entry = context.entry
    told: dict[str, object] = {
        "event": context.trigger,
        "tenant": context.tenant.slug,
        "entryId": entry.id,
        "contentType": entry.content_type,
    }
    if isinstance(entry, Entry):
        told |= {
            "status": entry.status,
            "data": public_data(context.content_type, entry),
            "createdAt": iso(entry.created_at),
            "updatedAt": iso(entry.updated_at),
        }
    return msgspec.json.encode(told).decode()


def _headers(context: Context) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Idempotency-Key": context.idempotency_key,
        "X-Procession-Tenant": context.tenant.slug,
        "X-Procession-Run": str(context.run_id),
    }
    if context.correlation_id and _CORRELATION.fullmatch(context.correlation_id):
        headers["X-Correlation-ID"] = context.correlation_id
    return headers


def _stamp(
    message: str, keys: tuple[bytes, ...], body: bytes, traceparent: str | None
) -> Callable[[], Mapping[str, str]]:
    """The id, the time of a try, its signatures, and the trace it belongs to."""

    def stamped() -> Mapping[str, str]:
        now = int(time.time())
        headers = {"webhook-id": message, "webhook-timestamp": str(now)}
        if keys:
            headers["webhook-signature"] = signature(keys, message, now, body)
        here = spans.here(traceparent)
        if here and _TRACEPARENT.fullmatch(here):
            headers["traceparent"] = here
        return headers

    return stamped
