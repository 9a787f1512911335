"""Performing what was claimed: no connection is held while a third party thinks."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import cast

from msgspec.structs import replace as changed
from procrastinate import JobContext

from procession.actions.attempt import Attempt, Performed
from procession.actions.base import Kept, Tenant
from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.engine.access import Actor, ActorKind
from procession.engine.branches import requests_in
from procession.engine.document import put
from procession.engine.outcome import Failed
from procession.engine.workflow import ActionDefinition, Compensate
from procession.outbound.http import Client
from procession.queue import requests
from procession.queue.acting import Acting, Entries, promise
from procession.queue.bodies import Bodies
from procession.queue.intake import Intake
from procession.queue.leases import Held
from procession.queue.manager import token_of
from procession.queue.pending import Ended
from procession.queue.pool import Pool
from procession.queue.record import Recorder
from procession.queue.requests import Found
from procession.queue.sealing import NO_KEYS, Ring
from procession.queue.start import Cause, Origin
from procession.queue.types import Claim, Tell, about, nobody

log = logging.getLogger(__name__)

PERFORMER = "performer"  # its name in the context that Procrastinate hands on


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """What the attempts of this process share."""

    registry: Registry
    client: Client
    limit: timedelta  # of one attempt
    pool: Pool
    bodies: Bodies
    held: Held
    intake: Intake
    recorder: Recorder
    ring: Ring = NO_KEYS  # that opens the credentials of what is performed
    max_depth: int = 10  # of the runs that an action's writes may queue
    console_url: str | None = None
    tell: Tell = nobody


async def attempt(context: JobContext) -> None:
    """Perform the claim that this job stands for, and then what is claimed in its place."""
    performer = cast("Performer", context.additional_context[PERFORMER])  # pyright: ignore[reportUnknownMemberType]  a bare dict there
    task = asyncio.current_task()
    assert task is not None
    token: int | None = token_of(context)
    while token is not None:
        try:
            if claim := performer.held.begin(token, task):
                await carry_out(performer, claim)
        finally:
            performer.held.forget(token)
        following = performer.intake.next()
        token = following.token if following else None


async def carry_out(performer: Performer, claim: Claim) -> None:
    """Perform a claim, and record what came of it."""
    about.set(claim.about)
    acting = acting_of(claim, performer.max_depth)
    store = partial(performer.bodies.keep, acting, claim.ordinal, undo=claim.undo)
    kept, began = Kept(claim.action.body, store=store), monotonic()
    try:
        to_perform, claim = await prepared(performer, claim, acting)
        performed = await perform(
            performer.registry,
            to_perform,
            client=performer.client,
            limit=performer.limit,
            kept=kept,
            entries=Entries(performer.pool, acting, performer.tell),
        )
    except asyncio.CancelledError:
        if performer.held.is_lost(claim.token):
            performer.recorder.deliver(claim, kept.deliveries)
        else:  # the worker stops
            await performer.recorder.release(claim, body=kept.body, deliveries=kept.deliveries)
        raise
    except Exception as error:  # noqa: BLE001  whatever it met on the way is recorded
        performed = broken(error, kept, began)
    ended = Ended(performed.outcome, performed.duration_ms, performed.body, performed.deliveries)
    await performer.recorder.record(claim, ended)


def broken(error: Exception, kept: Kept, began: float) -> Performed:
    """What comes of an attempt that met an error on our side of its action."""
    name = type(error).__name__
    log.error("An attempt cannot be performed: %s", name)
    took = round((monotonic() - began) * 1000)
    return Performed(Failed(name, retryable=True), took, kept.body, tuple(kept.deliveries))


async def prepared(performer: Performer, claim: Claim, acting: Acting) -> tuple[Attempt, Claim]:
    """What is to be performed, and the claim with what was promised of it."""
    attempt = attempt_of(claim, performer)
    stored = await stored_requests(performer.pool, claim.tenant.slug, attempt.action)
    attempt = replace(attempt, requests=stored)
    return attempt, await promised(performer, claim, acting, attempt)


async def stored_requests(
    pool: Pool, tenant: str, action: ActionDefinition | Compensate
) -> Mapping[str, Found] | None:
    """The stored requests that the action and its children send; None if they cannot be read now.

    What is promised of them and what is sent must be one, whatever is saved meanwhile.
    """
    named = requests_in(action.type, action.parameters)
    if not named:
        return {}
    try:
        async with pool.connection() as conn:
            return await requests.find(conn, tenant, named)
    except Exception as error:  # noqa: BLE001  of a newer release, say: its action tells of it
        log.warning("A stored request cannot be read: %s", type(error).__name__)
        return None


async def promised(performer: Performer, claim: Claim, acting: Acting, attempt: Attempt) -> Claim:
    """The claim with the promise of its action to be repeatable, which others can read as well."""
    if claim.action.repeatable:
        return claim
    action, found = attempt.action, attempt.requests or {}
    safe = [slug for slug, one in found.items() if one.is_repeatable]
    if not performer.registry.repeatable(action.type, action.parameters, safe):
        return claim
    await promise(performer.pool, acting, claim.ordinal, undo=claim.undo)
    kept = changed(claim.action, repeatable=True)
    return changed(claim, run=put(claim.run, claim.ordinal, kept, undo=claim.undo))


def acting_of(claim: Claim, max_depth: int) -> Acting:
    """On whose behalf the action of this claim writes: in the name of who fired the run."""
    workflow = Actor(kind=ActorKind.CONTROL, id=str(claim.workflow_id), name=claim.workflow_name)
    origin = Origin(
        claim.event.actor or workflow,
        claim.correlation_id,
        claim.traceparent,
        Cause(claim.id, claim.depth, max_depth),
    )
    return Acting(claim.tenant.slug, claim.id, claim.token, origin)


def attempt_of(claim: Claim, performer: Performer) -> Attempt:
    """The claim in the words of the actions."""
    tenant, action = claim.tenant, claim.action
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
        event=claim.event,
        outputs=claim.run.outputs,
        ring=performer.ring,
        body=action.body,
        console_url=performer.console_url,
        correlation_id=claim.correlation_id,
        traceparent=claim.traceparent,
    )
