"""What the application stands on, as the process that serves it made it."""

from asyncio import Semaphore
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import inf
from typing import cast
from weakref import WeakValueDictionary

from fastapi import Request

from procession.api.attempts import Attempts
from procession.api.scrape import Scrape
from procession.engine.catalogue import Catalogue
from procession.outbound.guard import Network
from procession.outbound.http import Client
from procession.outbound.oidc import Issuer
from procession.queue.later import Later
from procession.queue.pool import Pool
from procession.queue.sealing import NO_KEYS, Ring
from procession.queue.share import Shares
from procession.queue.types import Tell, nobody

NO_TYPES = Catalogue()
CALLER = "procession.caller"  # of the request's scope: who calls


async def _always_ready() -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished runs are kept; None for ever, or as long as nothing removes them."""

    succeeded: timedelta | None = None
    failed: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Where a token of the issuer says whose it is."""

    tenant: str = "tenant"
    roles: str = "roles"
    name: str = "name"
    email: str = "email"


@dataclass(frozen=True, slots=True)
class Services:
    """One for the whole application."""

    pool: Pool
    ring: Ring = NO_KEYS  # that seals what is kept secret; settings demand one of who serves
    control_tokens: tuple[str, ...] = ()
    issuer: Issuer | None = None  # whose tokens are taken
    claims: ClaimNames = ClaimNames()
    attempts: Attempts = field(default_factory=Attempts)
    later: Later = field(default_factory=Later)  # what an outage kept from being written
    max_body_bytes: int = 1_048_576
    retention: Retention = Retention()
    catalogue: Catalogue = NO_TYPES  # the action types that this process knows
    # what a call of a type may take, and all calls of an attempt
    longest: Mapping[str, float] = field(default_factory=dict[str, float])
    most_seconds: float = inf
    insecure_signed_urls: bool = False  # whether a webhook over http may have a secret
    console_url: str | None = None  # base of the links in templates
    prober: Client | None = None  # what connectors are tried by
    allowed_networks: tuple[Network, ...] = ()  # where http is let to as well
    reasons: Callable[[], Awaitable[list[str]]] = _always_ready  # why it is not ready, if it is not
    scrape: Scrape = field(default_factory=Scrape)
    tell: Tell = nobody  # of the runs that are queued
    turn: Semaphore = field(default_factory=partial(Semaphore, 1))  # to check what is long
    # the same among the requests of one tenant, while there are such
    turns: WeakValueDictionary[str, Semaphore] = field(
        default_factory=WeakValueDictionary[str, Semaphore]
    )
    shares: Shares = field(default_factory=Shares)  # of the pool, by tenant


def services_of(request: Request) -> Services:
    return cast("Services", request.app.state.services)
