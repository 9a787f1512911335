"""Who calls: an API key, a person whom the issuer knows, or a holder of the control token.

A credential that is missing, malformed, unknown, expired or revoked is one and the same refusal.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from starlette.requests import HTTPConnection

from procession.api.services import ClaimNames, Services
from procession.engine.access import BUILT_IN, EVERYTHING, Actor, ActorKind, effective
from procession.engine.errors import (
    Fault,
    IdentityProviderUnavailableError,
    NotFoundError,
    TenantMismatchError,
    TenantRequiredError,
    UnauthenticatedError,
    ValidationFailedError,
)
from procession.engine.names import is_name, is_slug
from procession.outbound.oidc import Issuer, RefusedTokenError
from procession.outbound.public_keys import KeysAwayError
from procession.queue import access
from procession.queue.pool import Pool

KEY = re.compile(r"prc_([A-Za-z0-9]{12})_([A-Za-z0-9]{43})")
TOKEN = re.compile(r"[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+")
LONGEST_NAME = 200  # of each header that says whom a control caller acts for, and of such claims
LONGEST_SUBJECT = 255
ONCE = "comes more than once"
NOBODY = hashlib.sha256(b"").digest()  # compared with when no key has the id: as long either way


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, in which tenant, and what that lets it do."""

    actor: Actor
    tenant: str  # empty for a control caller on the few routes that stand above the tenants
    roles: tuple[str, ...]
    capabilities: frozenset[str]
    tenants: tuple[str, ...] = ()  # those that a token of the issuer lets choose among

    @property
    def is_control(self) -> bool:
        return self.actor.kind is ActorKind.CONTROL


async def identify(request: HTTPConnection, services: Services) -> Caller:
    """The caller by its credential; the tenant of one that may choose it is still open."""
    given = request.headers.getlist("authorization")
    scheme, _, credential = (given[0] if given else "").partition(" ")
    credential = credential.strip()
    if len(given) > 1 or scheme.lower() != "bearer" or not credential:
        raise UnauthenticatedError  # nobody has tried anything
    address = request.client.host if request.client else ""
    with services.attempts.look(address, credential):
        return await _bearer(credential, services)


async def _bearer(credential: str, services: Services) -> Caller:
    if not credential.isascii():
        raise UnauthenticatedError
    if _is_control(credential, services.control_tokens):
        actor = Actor(kind=ActorKind.CONTROL, id="control", name="Control")
        return Caller(actor, "", (), EVERYTHING)
    if form := KEY.fullmatch(credential):
        return await _holder(services.pool, form[1], form[2])
    if services.issuer is not None and TOKEN.fullmatch(credential):
        return await _person(services.issuer, credential, services.claims)
    raise UnauthenticatedError


def _is_control(credential: str, control: Sequence[str]) -> bool:
    # of digests, so that not even a length shows; all of them, so that neither does a position
    given = hashlib.sha256(credential.encode()).digest()
    hits = [hmac.compare_digest(given, hashlib.sha256(one.encode()).digest()) for one in control]
    return any(hits)


async def _holder(pool: Pool, key_id: str, secret: str) -> Caller:
    async with pool.connection() as conn:
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


async def _person(issuer: Issuer, token: str, names: ClaimNames) -> Caller:
    """Whom the token is of. The roles are as it says: what they hold is for its tenant to say."""
    try:
        claims = await issuer.claims(token)
    except RefusedTokenError:
        raise UnauthenticatedError from None
    except KeysAwayError:
        raise IdentityProviderUnavailableError from None
    subject = claims["sub"]
    if not isinstance(subject, str) or not _is_plain(subject, LONGEST_SUBJECT):
        raise UnauthenticatedError
    name, email = claims.get(names.name), claims.get(names.email)
    actor = Actor(
        kind=ActorKind.USER,
        id=subject,
        name=name if isinstance(name, str) and _is_plain(name, LONGEST_NAME) else subject,
        email=email if isinstance(email, str) and _is_plain(email, LONGEST_NAME) else None,
    )
    roles = tuple(one for one in _texts(claims, names.roles) if is_name(one))
    tenants = tuple(one for one in _texts(claims, names.tenant) if is_slug(one))
    return Caller(actor, "", roles, frozenset(), tenants)


def _is_plain(text: str, longest: int) -> bool:
    return 0 < len(text) <= longest and text.isprintable()


def _texts(claims: Mapping[str, object], name: str) -> list[str]:
    """A claim that is a text, or a list of them; each once, in its order."""
    said = claims.get(name)
    listed = cast("list[object]", said) if isinstance(said, list) else [said]
    return list(dict.fromkeys(one for one in listed if isinstance(one, str)))


async def enter(request: HTTPConnection, caller: Caller, pool: Pool, *, above: bool) -> Caller:
    """The caller in the tenant of this request. A route above the tenants may go without one."""
    named = _tenant_named(request)
    if caller.actor.kind is ActorKind.USER:
        return await _enter_as_person(caller, named, pool)
    if not caller.is_control:
        if named is not None and named != caller.tenant:
            raise TenantMismatchError(f"This key is of the tenant {caller.tenant}.")
        return caller
    caller = replace(caller, actor=_acting_for(request, caller.actor))
    if above:
        return caller
    if named is None:
        raise TenantRequiredError("Name it in X-Tenant.")
    if not is_slug(named):
        raise ValidationFailedError([Fault("X-Tenant", "must be the slug of a tenant")])
    async with pool.connection() as conn:
        if not await access.knows_tenant(conn, named):
            raise NotFoundError("tenant")
    return replace(caller, tenant=named)


def _tenant_named(request: HTTPConnection) -> str | None:
    """The tenant that is asked for. Of two, whoever stands between may have checked the other."""
    given = request.headers.getlist("x-tenant")
    if len(given) > 1:
        raise ValidationFailedError([Fault("X-Tenant", ONCE)])
    return given[0] if given else None


async def _enter_as_person(caller: Caller, named: str | None, pool: Pool) -> Caller:
    """In the tenant that it chooses of those that are its own, with what its roles hold there."""
    if not caller.tenants:
        raise TenantMismatchError("The token names no tenant.")
    tenant = caller.tenants[0] if named is None else named
    if tenant not in caller.tenants:
        raise TenantMismatchError("The token does not name this tenant.")
    async with pool.connection() as conn:
        stored = await access.stored_roles(conn, tenant, caller.roles)
    if stored is None:
        raise NotFoundError("tenant")
    roles = tuple(one for one in caller.roles if one in BUILT_IN or one in stored)
    return replace(caller, tenant=tenant, roles=roles, capabilities=effective(roles, stored))


def _acting_for(request: HTTPConnection, control: Actor) -> Actor:
    """The person a control caller names, or the control caller itself."""
    names = {part: f"X-Actor-{part.title()}" for part in ("id", "name", "email")}
    given = {part: _text(request, header) for part, header in names.items()}
    faults = [
        Fault(names[part], f"must be at most {LONGEST_NAME} characters, none of them a control")
        for part, text in given.items()
        if len(text) > LONGEST_NAME or not text.isprintable()
    ]
    faults += [
        Fault(header, ONCE) for header in names.values() if len(request.headers.getlist(header)) > 1
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
