"""Tenants: made by holders of the control token, changed by whoever manages one's access."""

import re
from functools import cache
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from fastapi import Path, Response
from pydantic import Field, field_validator
from starlette.status import HTTP_201_CREATED

from procession.api.auth import Caller as KnownCaller
from procession.api.body import Document, read, takes
from procession.api.deps import Call, Caller, Database, Part
from procession.api.routes import above_tenants, api_router
from procession.api.shapes import Answer, Page, Received, Time, page_of
from procession.engine.errors import ForbiddenError, NotFoundError
from procession.queue import tenants
from procession.queue.tenants import Tenant, TenantChange

router = api_router("access")
Slug = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", examples=["acme"])]


class TenantBody(Received):
    """What a tenant is to be."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    time_zone: str = "UTC"
    currency: str = "USD"
    site_url: Annotated[str, Field(max_length=2000)] | None = None

    @field_validator("name")
    @classmethod
    def _is_not_blank(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("must not be blank")
        return name

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, zone: str) -> str:
        if zone not in _zones():
            raise ValueError("must be an IANA time zone")
        return zone

    @field_validator("currency")
    @classmethod
    def _is_a_code(cls, currency: str) -> str:
        if not re.fullmatch("[A-Z]{3}", currency):
            raise ValueError("must be three capital letters")
        return currency

    @field_validator("site_url")
    @classmethod
    def _is_absolute(cls, url: str | None) -> str | None:
        if url is not None and not _is_web_address(url):
            raise ValueError("must be an absolute http or https address")
        return url


@cache
def _zones() -> frozenset[str]:
    """The names of IANA zones, read once, since that takes 40 ms. Two kept with them are none."""
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable()
    except ValueError:
        return False


class TenantView(Answer):
    """A tenant."""

    slug: str
    name: str
    time_zone: str
    currency: str
    site_url: str | None
    created_at: Time


def view(tenant: Tenant) -> TenantView:
    return TenantView(
        slug=tenant.slug,
        name=tenant.name,
        time_zone=tenant.time_zone,
        currency=tenant.currency,
        site_url=tenant.site_url,
        created_at=tenant.created_at,
    )


def _may_manage(caller: KnownCaller, slug: str) -> bool:
    """Whether it is one's own, as far as this goes; raises without the capability."""
    if caller.is_control:
        return True
    if "manage_access" not in caller.capabilities:
        raise ForbiddenError("manage_access")
    return caller.tenant == slug


@router.get("/tenants", dependencies=[above_tenants()])
async def list_tenants(conn: Database, caller: Caller, part: Part) -> Page[TenantView]:
    """All tenants, by slug; for the control token only."""
    if not caller.is_control:
        raise ForbiddenError("*")
    rows, total = await tenants.page(conn, part.span)
    return Page[TenantView].model_validate(page_of(rows, total, part, view))


@router.get("/tenants/{slug}", dependencies=[above_tenants()])
async def read_tenant(slug: Slug, conn: Database, caller: Caller) -> TenantView:
    """One's own tenant, or any for the control token."""
    tenant = await tenants.one(conn, slug) if _may_manage(caller, slug) else None
    if tenant is None:
        raise NotFoundError("tenant")
    return view(tenant)


@router.put(
    "/tenants/{slug}",
    dependencies=[above_tenants("manage_access")],
    openapi_extra=takes(TenantBody),
    responses={201: {"model": TenantView, "description": "It is new"}},
)
async def save_tenant(
    slug: Slug, document: Document, conn: Database, call: Call, response: Response
) -> TenantView:
    """Change one's own tenant, or make one with the control token."""
    if not _may_manage(call.caller, slug):
        raise ForbiddenError("*")  # whether there is such a tenant is nobody else's to know
    body = read(TenantBody, document)
    change = TenantChange(body.name, body.time_zone, body.currency, body.site_url)
    tenant, is_new = await tenants.save(conn, slug, change, call.by)
    if is_new:
        response.status_code = HTTP_201_CREATED
    return view(tenant)
