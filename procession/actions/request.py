"""Sending a stored request through its connector.

The workflow names the request and nothing else: where it goes, what lets in and when an answer is
a good one are kept apart from it, and are those of the moment when the attempt began. Every secret
that a call used is taken out of what is kept of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from msgspec import MsgspecError
from typing_extensions import override

from procession.actions.answered import unanswered
from procession.actions.base import Action, Context, Parameter
from procession.actions.logged import Call, delivery_id, on_record
from procession.actions.request_message import Message, UnfitError, message_of, without
from procession.actions.thread import filled
from procession.actions.webhook import outcome_of
from procession.engine.branches import REQUEST
from procession.engine.json_path import holds
from procession.engine.masking import mask
from procession.engine.outcome import Failed, Outcome, Succeeded, Unknown
from procession.engine.request_definition import RequestDefinition, Success
from procession.outbound.access import Access, Link, MissingSecretError, OutsideError
from procession.outbound.answer import Answer, is_success
from procession.outbound.capture import EXCERPT, Capture
from procession.outbound.faults import AnswerTooLarge, Fault
from procession.outbound.oauth import GrantError, Tokens
from procession.outbound.retry import IN_DOUBT
from procession.queue import requests
from procession.queue.connectors import Kept
from procession.queue.outage import FAULTS
from procession.queue.pool import Pool
from procession.queue.requests import Found
from procession.queue.sealing import Ring, UnreadableError

JUDGED = Capture(262_144, 262_144, whole=True)  # of a body that says whether it went well


Find = Callable[[str, str], Awaitable[Found | None]]  # by tenant and slug


def kept_in(pool: Pool) -> Find:
    """Requests and connectors as they are in the database at the moment."""

    async def find(tenant: str, slug: str) -> Found | None:
        async with pool.connection() as conn:
            return (await requests.find(conn, tenant, [slug])).get(slug)

    return find


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the requests and their secrets are, for those who send them."""

    find: Find
    ring: Ring
    tokens: Tokens

    def sending(self, context: Context, slug: str, found: Found | None) -> "Sending":
        """What an attempt is to send; raises UnfitError."""
        if found is None:
            raise UnfitError(f"There is no request {slug}.")
        connector = found.connector
        if not connector.connector.enabled:
            raise UnfitError(f"The connector {connector.slug} is switched off.")
        try:
            link = link_of(connector, self.ring)
            message = message_of(found.request, link.connector, context)
            url = link.url(message.path)
        except UnreadableError as error:
            what = f"A secret of the connector {connector.slug}"
            raise UnfitError(
                f"{what} cannot be read by any key of this worker: {error.remedy}."
            ) from None
        except OutsideError:
            raise UnfitError("The path leads away from the connector.") from None
        return Sending(context, found, message, url, Access(link, context.http, self.tokens))


def link_of(kept: Kept, ring: Ring) -> Link:
    """The way to a stored connector; raises UnreadableError. A change of it forgets its tokens."""
    return Link((kept.tenant, kept.slug, kept.updated_at), kept.connector, kept.opened(ring))


class Request(Action):
    """Send a stored request through its connector."""

    parameters = (
        Parameter(
            REQUEST,
            required=True,
            description="The slug of a stored request",
            example="book-invoice",
        ),
    )

    def __init__(self, stored: Stored | None = None) -> None:
        self._stored = stored

    def repeatable(self, parameters: Mapping[str, str]) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  a method may stand for it
        """Nothing by itself: the stored request says it."""
        return False

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        assert self._stored is not None, "whoever performs it gives it"
        slug = parameters.get(REQUEST, "").strip()
        try:
            if context.requests is None:
                found = await self._stored.find(context.tenant.slug, slug)
            else:
                found = context.requests.get(slug)
            fill = partial(self._stored.sending, context, slug, found)
            sending = await filled(fill, found.request.written if found else 0, context.entry)
        except FAULTS:
            return Failed("The stored request cannot be read now.", retryable=True)
        except MsgspecError:  # of a newer release, say, which another worker may be of
            return Failed("The stored request cannot be read by this worker.", retryable=True)
        except UnfitError as error:
            return Failed(str(error))
        outcome = await sending.outcome()
        if isinstance(outcome, Failed):
            error = mask(outcome.error, sending.access.secrets)
            return Failed(error, outcome.retryable, outcome.response_status)
        return outcome


@dataclass(slots=True)
class Sending:
    """One attempt, once all that it sends is known."""

    context: Context
    found: Found
    message: Message
    url: str
    access: Access
    call: Call = field(init=False)  # for the log: of the sending that was the last

    def __post_init__(self) -> None:
        self.call = Call(
            delivery_id=delivery_id(self.context.idempotency_key),
            method=self.found.request.method,
            url=self.url,
            headers=self.message.headers,
            connector_slug=self.found.connector.slug,
            request_slug=self.found.slug,
        )

    async def outcome(self) -> Outcome:
        try:
            return await self._send()
        except MissingSecretError as error:
            return Failed(str(error))
        except GrantError as error:
            return Failed(str(error), retryable=not error.final)
        except Fault as fault:
            return self._without_answer(fault)

    async def _send(self) -> Outcome:
        """What comes of it. One row tells of a token that was not given, and of two sendings."""
        call = self.call
        with on_record(self.context.kept, call):
            try:
                answer = await self.access.send(self._once)
            except (MissingSecretError, GrantError) as error:
                call.error = str(error)
                raise
            outcome = judged(self.found.request, answer)
            call.error = outcome.error
        return outcome

    async def _once(self, way_in: Mapping[str, str]) -> Answer:
        request, message, call = self.found.request, self.message, self.call
        call.headers = headers = without(message.headers, way_in) | dict(way_in)
        call.secrets, call.answer = tuple(self.access.secrets), None
        call.answer = await self.access.client.request(
            request.method,
            self.url,
            headers=headers,
            each_try=lambda: call.tried({}),
            content=message.content,
            capture=JUDGED if request.success is Success.PATH_ABSENT else EXCERPT,
            resend=self.found.is_repeatable,
        )
        return call.answer

    def _without_answer(self, fault: Fault) -> Outcome:
        status = fault.status
        if status is not None and not is_success(status):
            return outcome_of(status)
        if isinstance(fault, AnswerTooLarge):
            reason = "The answer is too long to look for what it must not hold."
            return Failed(reason, response_status=status)
        if isinstance(fault, IN_DOUBT) and not self.found.is_repeatable:
            return Unknown(fault.kind, status)
        failed = unanswered(fault)
        return Failed(failed.error, failed.retryable, status)


def judged(request: RequestDefinition, answer: Answer) -> Outcome:
    """What an answer means by the request's own rule."""
    status = answer.status_code
    if request.success is Success.ANY:
        return Succeeded(response_status=status)
    if request.success is Success.TWO_HUNDRED or not is_success(status):
        return outcome_of(status)
    path = request.success_json_path or ""
    try:
        is_there = holds(answer.json(), path)
    except (ValueError, RecursionError):
        return Failed("The answer is no JSON.", retryable=True, response_status=status)
    if is_there:
        return Failed(f"The answer holds {path}.", retryable=True, response_status=status)
    return Succeeded(response_status=status)
