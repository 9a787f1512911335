"""Performing what was claimed: no connection is held while a third party thinks."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from procrastinate import JobContext

from procession.actions.attempt import Attempt
from procession.actions.base import Event, Tenant
from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.outbound.http import Client
from procession.queue.leases import Held
from procession.queue.manager import token_of
from procession.queue.pending import Ended
from procession.queue.record import Recorder
from procession.queue.types import Claim, current_run

PERFORMER = "performer"  # its name in the context that Procrastinate hands on


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """What the attempts of this process share."""

    registry: Registry
    client: Client
    limit: timedelta  # of one attempt
    held: Held
    recorder: Recorder


async def attempt(context: JobContext) -> None:
    """Perform the claim that this job stands for, and record what came of it."""
    performer = cast("Performer", context.additional_context[PERFORMER])  # pyright: ignore[reportUnknownMemberType]  a bare dict there
    task = asyncio.current_task()
    assert task is not None
    claim = performer.held.begin(token_of(context), task)
    if claim is None:
        return
    current_run.set(claim.id)
    try:
        performed = await perform(
            performer.registry, to_perform(claim), client=performer.client, limit=performer.limit
        )
    except asyncio.CancelledError:
        if not performer.held.is_lost(claim.token):  # so the worker stops
            await performer.recorder.release(claim)
        raise
    ended = Ended(performed.outcome, performed.duration_ms, performed.body)
    await performer.recorder.record(claim, ended)


def to_perform(claim: Claim) -> Attempt:
    """The claim in the words of the actions."""
    tenant, event, action = claim.tenant, claim.event, claim.action
    return Attempt(
        tenant=Tenant(tenant.slug, tenant.name, tenant.time_zone, tenant.currency, tenant.site_url),
        run_id=claim.id,
        workflow_id=claim.workflow_id,
        workflow_name=claim.workflow_name,
        trigger=claim.trigger,
        ordinal=claim.ordinal,
        number=action.attempts,
        definition=claim.definition,
        content_type=claim.content_type,
        entry_id=claim.entry_id,
        entry=claim.entry,
        undo=claim.undo,
        defined=claim.defined,
        event=Event(event.actor, event.at, event.transition),
        outputs=claim.run.outputs,
        body=action.body,
        correlation_id=claim.correlation_id,
        traceparent=claim.traceparent,
    )
