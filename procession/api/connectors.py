"""Connectors: what other systems are, and what lets in to them. Secrets are written, never read."""

from time import monotonic
from typing import Annotated

from fastapi import Depends, Path, Request, Response, status

from procession.actions.request import link_of
from procession.api import things
from procession.api.body import Document, takes
from procession.api.deps import Call, Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.services import services_of
from procession.api.shapes import Answer, Page, Received, Time, page_of
from procession.engine.connector import Auth
from procession.engine.connector_body import parse_connector
from procession.engine.errors import ConflictError, found
from procession.outbound.access import Access, MissingSecretError, OutsideError
from procession.outbound.answer import is_success
from procession.outbound.capture import NOTHING
from procession.outbound.faults import Fault
from procession.outbound.guard import is_allowed_host
from procession.outbound.oauth import GrantError, Tokens
from procession.queue import connectors
from procession.queue.connectors import Kept, Saving
from procession.queue.sealing import UnreadableError

router = api_router("connectors")
VIEW, MANAGE = [needs("view_connectors")], [needs("manage_connectors")]
Slug = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", examples=["ledger"])]
ONE = "/connectors/{slug}"


class ConnectorBody(Received):
    """A connector. A secret that is left out stays; a blank one is cleared."""

    name: str
    base_url: str
    auth: Auth
    settings: dict[str, str | None] | None = None
    secrets: dict[str, str | None] | None = None
    enabled: bool | None = None
    probe_path: str | None = None


class ConnectorView(Answer):
    """A connector, with the names of the secrets that are stored."""

    slug: str
    name: str
    base_url: str
    auth: Auth
    settings: dict[str, str]
    secrets_set: list[str]
    enabled: bool
    probe_path: str
    updated_at: Time


class Probed(Answer):
    """What came of one GET."""

    ok: bool
    status: int | None = None
    duration_ms: int
    error: str | None = None


def view(kept: Kept) -> ConnectorView:
    one = kept.connector
    return ConnectorView(
        slug=kept.slug,
        name=one.name,
        base_url=one.base_url,
        auth=one.auth,
        settings=one.settings,
        secrets_set=sorted(kept.secrets),
        enabled=one.enabled,
        probe_path=one.probe_path,
        updated_at=kept.updated_at,
    )


def _saving(slug: Slug, document: Document, tenant: Tenant, request: Request) -> Saving:
    services = services_of(request)
    sent = parse_connector(document, lambda host: is_allowed_host(host, services.allowed_networks))
    return Saving(tenant, slug, sent, services.ring)


Saved = Annotated[Saving, Depends(_saving)]


@router.put(
    ONE,
    dependencies=MANAGE,
    openapi_extra=takes(ConnectorBody),
    responses={201: {"model": ConnectorView, "description": "It is new"}},
)
async def save_connector(
    saving: Saved, conn: Database, call: Call, response: Response
) -> ConnectorView:
    """Make a connector, or replace all of it but the secrets that are left out."""
    kept, is_new = await connectors.save(conn, saving, call.by)
    if is_new:
        response.status_code = status.HTTP_201_CREATED
    return view(kept)


@router.get("/connectors", dependencies=VIEW)
async def list_connectors(conn: Database, tenant: Tenant, part: Part) -> Page[ConnectorView]:
    """The connectors, by slug."""
    rows, total = await connectors.page(conn, tenant, part.span)
    return Page[ConnectorView].model_validate(page_of(rows, total, part, view))


@router.get(ONE, dependencies=VIEW)
async def read_connector(slug: Slug, conn: Database, tenant: Tenant) -> ConnectorView:
    """One connector."""
    return view(found(await connectors.one(conn, tenant, slug), "connector"))


@router.delete(ONE, dependencies=MANAGE, status_code=status.HTTP_204_NO_CONTENT)
async def delete_connector(slug: Slug, conn: Database, call: Call) -> None:
    """Take a connector away that no request names."""
    await connectors.delete(conn, call.tenant, slug, call.by)


@router.post(f"{ONE}/test", dependencies=[needs("manage_connectors", things.connector)])
async def test_connector(slug: Slug, tenant: Tenant, request: Request) -> Probed:
    """Send one GET of its probePath, as its requests would be sent, and tell the status."""
    async with services_of(request).pool.connection() as conn:  # not held while it is called
        kept = found(await connectors.one(conn, tenant, slug), "connector")
    if not kept.connector.enabled:
        raise ConflictError("connector-disabled")
    began = monotonic()
    came, error = await _probed(request, kept)
    return Probed(
        ok=came is not None and is_success(came),
        status=came,
        duration_ms=round((monotonic() - began) * 1000),
        error=error,
    )


async def _probed(request: Request, kept: Kept) -> tuple[int | None, str | None]:
    """The status, or why there is none."""
    services = services_of(request)
    assert services.prober is not None, "whoever serves gives one"
    client = services.prober.of(kept.tenant)
    try:
        link = link_of(kept, services.ring)
        url = link.url(kept.connector.probe_path)
        access = Access(link, client, Tokens())  # none from before: it is tried whether one is had
        answer = await access.send(
            lambda headers: access.client.get(url, headers=headers, capture=NOTHING)
        )
    except UnreadableError as error:
        return None, f"A secret of it cannot be read by any key: {error.remedy}."
    except OutsideError:
        return None, "The path leads away from the connector."
    except (MissingSecretError, GrantError) as error:
        return None, str(error)
    except Fault as fault:
        return None, fault.told
    return answer.status_code, None
