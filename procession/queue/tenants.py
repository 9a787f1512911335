"""Tenants: whose everything is. They are made and changed, and never deleted."""

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from procession.queue.audit import By, Note
from procession.queue.named import make_or_replace, part_of
from procession.queue.pool import Connection
from procession.queue.runs import Span


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as it is kept."""

    slug: str
    name: str
    time_zone: str
    currency: str
    site_url: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TenantChange:
    """What a tenant is to be. There is no PATCH: what is left out gets its default."""

    name: str
    time_zone: str = "UTC"
    currency: str = "USD"
    site_url: str | None = None


ONE = """
    select slug, name, time_zone, currency, site_url, created_at
    from tenant where slug = %(tenant)s
"""


async def one(conn: Connection, slug: str) -> Tenant | None:
    async with conn.cursor(row_factory=class_row(Tenant)) as cursor:
        return await (await cursor.execute(ONE, {"tenant": slug})).fetchone()


PAGE = """
    select total.count, part.*
    from (select count(*) from tenant) as total
    left join lateral (
        select slug, name, time_zone, currency, site_url, created_at
        from tenant order by slug offset %(offset)s limit %(limit)s
    ) as part on true
    order by slug
"""


async def page(conn: Connection, span: Span) -> tuple[list[Tenant], int]:
    """Part of the tenants, by slug, and how many there are: for holders of the control token."""
    rows, total = await part_of(conn, PAGE, span.values)
    return [Tenant(**{name: row[name] for name in Tenant.__slots__}) for row in rows], total


# xmax is 0 in a row that this statement inserted. What is there already gives no row.
SAVE = """
    insert into tenant as kept (slug, name, time_zone, currency, site_url)
    values (%(tenant)s, %(name)s, %(time_zone)s, %(currency)s, %(site_url)s)
    on conflict (slug) do update
    set name = excluded.name, time_zone = excluded.time_zone, currency = excluded.currency,
        site_url = excluded.site_url
    where (kept.name, kept.time_zone, kept.currency, kept.site_url)
          is distinct from (excluded.name, excluded.time_zone, excluded.currency, excluded.site_url)
    returning xmax = 0
"""


async def save(conn: Connection, slug: str, change: TenantChange, by: By) -> tuple[Tenant, bool]:
    """Make the tenant, or change it; and whether it is new."""
    values = {name: getattr(change, name) for name in TenantChange.__slots__}
    async with conn.transaction():
        what = Note("tenant.saved", "Tenant", slug, {"slug": slug})
        is_new = await make_or_replace(conn, SAVE, {"tenant": slug, **values}, by, what)
        tenant = await one(conn, slug)
    assert tenant is not None
    return tenant, is_new
