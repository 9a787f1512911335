"""Reading the delivery log: a page of the newest, of a run, a workflow, or one kind of answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from msgspec import Struct, convert
from psycopg.rows import dict_row

from procession.queue.pool import Connection
from procession.queue.runs import Span


class Logged(Struct, frozen=True, kw_only=True):
    """A delivery as it is kept."""

    id: UUID
    delivery_id: UUID
    workflow_id: UUID
    run_id: UUID
    ordinal: int
    attempt: int
    event: str
    method: str
    url: str
    request_headers: dict[str, str]
    response_status: int | None
    response_body: str | None  # None for whoever may not see it, too
    response_body_cleared_at: datetime | None
    requests_sent: int
    duration_ms: int
    error: str | None
    connector_slug: str | None
    request_slug: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Which deliveries of a tenant; what is None filters nothing."""

    workflow_id: UUID | None = None
    run_id: UUID | None = None
    status: str | None = None

    @property
    def values(self) -> Mapping[str, object]:
        return {"workflow_id": self.workflow_id, "run_id": self.run_id}


# Literal pieces and not "is null or": with those a prepared plan can use one index only.
PIECES: dict[str, LiteralString] = {
    "workflow_id": "and workflow_id = %(workflow_id)s",
    "run_id": "and run_id = %(run_id)s",
}
STATUSES: dict[str, LiteralString] = {
    "2xx": "and response_status between 200 and 299",
    "3xx": "and response_status between 300 and 399",
    "4xx": "and response_status between 400 and 499",
    "5xx": "and response_status between 500 and 599",
    "failed": "and response_status is null",
}


def narrowed(statement: LiteralString, sought: Sought) -> LiteralString:
    """The statement with its filters in their place."""
    pieces: list[LiteralString] = [
        PIECES[name] for name, value in sought.values.items() if value is not None
    ]
    if sought.status is not None:
        pieces.append(STATUSES[sought.status])
    return statement.replace("/* filters */", " ".join(pieces))


COUNT = "select count(*) from delivery where tenant = %(tenant)s /* filters */"

# A body lies apart from its row when it is long, and is not fetched for whoever may not see it.
PAGE = """
    select id, delivery_id, workflow_id, run_id, ordinal, attempt, event, method, url,
           request_headers, response_status,
           case when %(bodies)s then response_body end as response_body,
           response_body_cleared_at, requests_sent, duration_ms, error, connector_slug,
           request_slug, created_at
    from delivery
    where tenant = %(tenant)s /* filters */
    order by created_at desc, id desc
    limit %(limit)s offset %(offset)s
"""


async def page(
    conn: Connection, tenant: str, sought: Sought, span: Span, *, bodies: bool
) -> tuple[list[Logged], int]:
    """Part of the deliveries, the newest first, and how many there are."""
    wanted = {"tenant": tenant, **sought.values, **span.values, "bodies": bodies}
    counted = await conn.execute(narrowed(COUNT, sought), wanted)
    (total,) = await counted.fetchone() or (0,)
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(narrowed(PAGE, sought), wanted)
        return [convert(row, Logged) async for row in cursor], total
