"""Who calls: an API key, or a holder of the control token and the person it acts for.

A credential that is missing, malformed, unknown, expired or revoked is one and the same refusal.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.requests import HTTPConnection

from procession.engine.access import EVERYTHING, Actor, ActorKind, effective
from procession.engine.errors import (
    Fault,
    NotFoundError,
    TenantMismatchError,
    TenantRequiredError,
    UnauthenticatedError,
    ValidationFailedError,
)
from procession.queue import access
from procession.queue.pool import Connection, Pool

KEY = re.compile(r"prc_([A-Za-z0-9]{12})_([A-Za-z0-9]{43})")
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
LONGEST_NAME = 200  # of each header that says whom a control caller acts for
NOBODY = hashlib.sha256(b"").digest()  # compared with when no key has the id: as long either way


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, in which tenant, and what that lets it do."""

    actor: Actor
    tenant: str  # empty for a control caller on the few routes that stand above the tenants
    roles: tuple[str, ...]
    capabilities: frozenset[str]

    @property
    def is_control(self) -> bool:
        return self.actor.kind is ActorKind.CONTROL


async def identify(request: HTTPConnection, pool: Pool, control: Sequence[str]) -> Caller:
    """The caller by its credential; the tenant of a control caller is still open."""
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    credential = credential.strip()
    if scheme.lower() != "bearer" or not credential.isascii():
        raise UnauthenticatedError
    if _is_control(credential, control):
        actor = Actor(kind=ActorKind.CONTROL, id="control", name="Control")
        return Caller(actor, "", (), EVERYTHING)
    form = KEY.fullmatch(credential)
    if form is None:
        raise UnauthenticatedError
    async with pool.connection() as conn:
        return await _holder(conn, form[1], form[2])


def _is_control(credential: str, control: Sequence[str]) -> bool:
    # of digests, so that not even a length shows; all of them, so that neither does a position
    given = hashlib.sha256(credential.encode()).digest()
    hits = [hmac.compare_digest(given, hashlib.sha256(one.encode()).digest()) for one in control]
    return any(hits)


async def _holder(conn: Connection, key_id: str, secret: str) -> Caller:
    key = await access.find_key(conn, key_id)
    digest = hashlib.sha256(secret.encode()).digest()
    matches = hmac.compare_digest(digest, key.digest if key else NOBODY)
    if key is None or not matches or not key.live:
        raise UnauthenticatedError
    if key.stale:
        await access.touch_key(conn, key)
    actor = Actor(kind=ActorKind.API_KEY, id=key.id, name=key.name)
    capabilities = effective([key.role], {key.role: key.stored})
    return Caller(actor, key.tenant, (key.role,), capabilities)


async def enter(request: HTTPConnection, caller: Caller, pool: Pool, *, above: bool) -> Caller:
    """The caller in the tenant of this request. A route above the tenants may go without one."""
    named = request.headers.get("x-tenant")
    if not caller.is_control:
        if named is not None and named != caller.tenant:
            raise TenantMismatchError(f"This key is of the tenant {caller.tenant}.")
        return caller
    caller = replace(caller, actor=_acting_for(request, caller.actor))
    if above:
        return caller
    if named is None:
        raise TenantRequiredError("Name it in X-Tenant.")
    if not SLUG.fullmatch(named):
        raise ValidationFailedError([Fault("X-Tenant", "must be the slug of a tenant")])
    async with pool.connection() as conn:
        if not await access.knows_tenant(conn, named):
            raise NotFoundError("tenant")
    return replace(caller, tenant=named)


def _acting_for(request: HTTPConnection, control: Actor) -> Actor:
    """The person a control caller names, or the control caller itself."""
    names = {part: f"X-Actor-{part.title()}" for part in ("id", "name", "email")}
    given = {part: _text(request, header) for part, header in names.items()}
    faults = [
        Fault(names[part], f"must be at most {LONGEST_NAME} characters, none of them a control")
        for part, text in given.items()
        if len(text) > LONGEST_NAME or not text.isprintable()
    ]
    if faults:
        raise ValidationFailedError(faults)
    actor_id = given["id"] or control.id
    name = given["name"] or given["id"] or control.name
    return Actor(kind=control.kind, id=actor_id, name=name, email=given["email"] or None)


def _text(request: HTTPConnection, header: str) -> str:
    """A header's text: UTF-8, as people's names need, or else Latin-1, as HTTP has it."""
    value = request.headers.get(header, "").strip()
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value
