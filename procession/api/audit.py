"""The audit log: read, never written from here."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from procession.api.deps import Database, Part, Tenant
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Page, ReceivedTime, Time, Who, page_of, who
from procession.queue import audit
from procession.queue.audit import Noted, Sought

router = api_router("audit")


class AuditView(Answer):
    """What was done to what, by whom."""

    id: UUID
    at: Time
    action: str
    actor: Who | None
    target_type: str
    target_id: str
    metadata: dict[str, object]
    ip: str | None


def view(noted: Noted) -> AuditView:
    return AuditView(
        id=noted.id,
        at=noted.at,
        action=noted.action,
        actor=noted.actor and who(noted.actor),
        target_type=noted.target_type,
        target_id=noted.target_id,
        metadata=noted.metadata,
        ip=noted.ip,
    )


def _sought(
    action: str | None = None,
    target_id: Annotated[str | None, Query(alias="targetId")] = None,
    since: Annotated[ReceivedTime | None, Query(alias="from")] = None,
    until: Annotated[ReceivedTime | None, Query(alias="to")] = None,
) -> Sought:
    return Sought(action=action, target_id=target_id, since=since, until=until)


@router.get("/audit", dependencies=[needs("view_audit_log")])
async def list_audit_entries(
    conn: Database, tenant: Tenant, sought: Annotated[Sought, Depends(_sought)], part: Part
) -> Page[AuditView]:
    """What was changed by whom, the newest first; from and to are within."""
    noted, total = await audit.page(conn, tenant, sought, part.span)
    return Page[AuditView].model_validate(page_of(noted, total, part, view))
