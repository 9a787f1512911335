"""One attempt, from what was claimed to an outcome.

Whatever an action does ends here as one of the four outcomes: what it raises, how long it takes,
what it returns. Nothing that an action says is kept before it is redacted. A cancellation from
outside (a stopping worker, a lost lease) is the one thing that goes on.
"""

import asyncio
import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import cast

from procession.actions.answered import unanswered
from procession.actions.attempt import Attempt, Performed
from procession.actions.base import Action, Context, Entries, Kept
from procession.actions.parameters import (
    UnrenderedError,
    parameters_of,
    references_of,
    written_in,
)
from procession.actions.registry import Registry
from procession.actions.said import outcome_of
from procession.actions.thread import filled, in_thread
from procession.engine.catalogue import ActionType
from procession.engine.outcome import Failed, Outcome, Skipped, Unknown
from procession.engine.workflow import ActionDefinition
from procession.outbound import spans
from procession.outbound.faults import AddressRefused, BreakerOpen
from procession.outbound.http import Client
from procession.outbound.spans import SpanKind
from procession.queue.outage import OUTAGES

__all__ = ["Attempt", "Performed", "perform"]

log = logging.getLogger(__name__)

GRACE = timedelta(seconds=10)  # for an action to end once it is cancelled; then it is left behind
GONE = "The entry no longer exists."
LIMIT = "The action did not end within the attempt limit."
CUT_OFF = "The action was cancelled from within."
UNREAD = "The entries that its templates refer to cannot be read."

_left_behind = set[asyncio.Task[object]]()  # a task that nothing refers to may vanish half done


async def perform(  # noqa: PLR0913 - all that an attempt stands on
    registry: Registry,
    attempt: Attempt,
    *,
    client: Client,
    limit: timedelta,
    kept: Kept | None = None,
    entries: Entries | None = None,
) -> Performed:
    """Perform the action, or its undo, once. Who may have to cancel it looks at what is kept."""
    began, kept = monotonic(), kept or Kept(attempt.body)
    with spans.span("attempt", SpanKind.CONSUMER, parent=attempt.traceparent) as one:
        if one.is_recording():
            one.set_attributes(attempt.told)
            attempt = replace(attempt, traceparent=spans.here(attempt.traceparent))
        outcome = await _Performing(registry, client, entries, attempt).outcome(kept, limit)
        one.set_attribute("procession.outcome", type(outcome).__name__)
    took = round((monotonic() - began) * 1000)
    return Performed(outcome, took, kept.body, tuple(kept.deliveries))


@dataclass(frozen=True, slots=True)
class _Performing:
    """An attempt, and what it is performed with. Its children are performed with the same."""

    registry: Registry
    client: Client
    entries: Entries | None
    attempt: Attempt

    async def outcome(self, kept: Kept, limit: timedelta | None = None) -> Outcome:
        known: list[str] = []
        said = await self._said(kept, limit, known)
        return outcome_of(said, known)

    async def _said(self, kept: Kept, limit: timedelta | None, known: list[str]) -> object:
        if self.attempt.vanished:
            return Skipped(GONE)
        type_ = self.attempt.action.type
        action = self.registry.get(type_)
        if action is None:
            return Failed(f"No worker here serves the type {type_}.", retryable=True)
        doing = asyncio.create_task(self._doing(action, kept, known))
        return await _ended(doing, limit)

    async def _doing(self, action: Action, kept: Kept, known: list[str]) -> object:
        """What the action says, once its parameters are filled in; its credentials are noted."""
        type_ = self.attempt.action.type
        kind = self.registry.kind(type_)
        written = written_in(self.attempt, kind)
        try:
            attempt = await self._informed(kind, written)
            fill = partial(parameters_of, attempt, kind)
            parameters = await filled(fill, written, attempt.subject)
        except UnrenderedError as error:
            return Failed(str(error), retryable=error.retryable)
        except OUTAGES:
            return Failed(UNREAD, retryable=True)
        known += (value for name, value in parameters.items() if kind.is_credential(name))
        context = attempt.context(self.client, kept, self.entries, children=self)
        return await _act(action, context, parameters, blocking=self.registry.is_blocking(type_))

    async def _informed(self, kind: ActionType, written: int) -> Attempt:
        """The attempt with what its templates read of other entries."""
        attempt = self.attempt
        if not written:
            return attempt
        seek = partial(references_of, attempt, kind)
        references, fields = await filled(seek, written, attempt.subject)
        if not references or self.entries is None:
            return attempt
        found = await self.entries.referenced(references, fields)
        return replace(attempt, references=found)

    def serves(self, type_: str) -> bool:
        return self.registry.get(type_) is not None

    async def perform(self, child: ActionDefinition, place: str, kept: Kept) -> Outcome:
        """Perform a child, within the time that its parent has."""
        attempt = replace(self.attempt, child=child, place=self.attempt.place + place)
        return await replace(self, attempt=attempt).outcome(kept)


async def _act(
    action: Action, context: Context, parameters: Mapping[str, str], *, blocking: bool
) -> object:
    try:
        if blocking:
            said = await in_thread(lambda: action.perform(context, parameters))
        else:
            said = action.perform(context, parameters)
        return await said if inspect.isawaitable(said) else said
    except (SystemExit, KeyboardInterrupt) as error:  # which would end the worker
        return Failed(type(error).__name__, retryable=True)


async def _ended(doing: asyncio.Task[object], limit: timedelta | None) -> object:
    """What came of a task that performs an action, once it ended or had its time."""
    try:
        seconds = None if limit is None else limit.total_seconds()
        await asyncio.wait({doing}, timeout=seconds)
    except asyncio.CancelledError:
        await _cancel(doing)
        raise
    if not doing.done():
        await _cancel(doing)
        return Unknown(LIMIT)
    if doing.cancelled():
        return Unknown(CUT_OFF)
    error = doing.exception()
    return doing.result() if error is None else _classified(error)


async def _cancel(doing: asyncio.Task[object]) -> None:
    """Cancel it and wait a while; one that goes on all the same is left behind."""
    _left_behind.add(doing)
    doing.add_done_callback(_forget)
    doing.cancel()
    _, going_on = await asyncio.wait({doing}, timeout=GRACE.total_seconds())
    if going_on:
        log.warning("An action that was cancelled goes on, and is left behind")


def _forget(doing: asyncio.Task[object]) -> None:
    _left_behind.discard(doing)
    if not doing.cancelled():
        doing.exception()  # looked at, or asyncio complains of one that nobody saw


def _classified(error: BaseException) -> Outcome:
    if isinstance(error, AddressRefused | BreakerOpen):
        return unanswered(error)
    if _is_timeout(error):
        return Unknown(type(error).__name__)
    return Failed(type(error).__name__, retryable=True)


def _is_timeout(error: BaseException) -> bool:
    """Whether it says that time ran out, in whatever library's words."""
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error)
        return any(_is_timeout(one) for one in several.exceptions)
    return any("timeout" in one.__name__.lower() for one in type(error).__mro__)
