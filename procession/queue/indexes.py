"""The indexes that the migrations make: whether each is there and of use, and what makes it so."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from procession.queue.migrate import migrations
from procession.queue.pool import Connection

_MADE = re.compile(
    r"^(?P<create>create(?: unique)? index)(?: concurrently)? (?P<made>\w+)(?P<rest>\s+on [^;]+);"
    r"|^drop index(?: concurrently)?(?: if exists)? (?P<dropped>\w+);",
    re.IGNORECASE | re.MULTILINE,
)


def ours() -> Mapping[str, str]:
    """What there is after all migrations, and the statement that makes it beside the work."""
    made: dict[str, str] = {}
    for match in (match for one in migrations() for match in _MADE.finditer(one.sql)):
        if name := match["made"]:
            on = " ".join(match["rest"].split())
            made[name] = f"{match['create'].lower()} concurrently {name} {on};"
        else:
            made.pop(match["dropped"], None)
    return made


# One that was left half made: it is written and never read.
FOUND = """
    select class.relname, index.indisvalid from pg_index as index
    join pg_class as class on class.oid = index.indexrelid
    where class.relnamespace = current_schema()::regnamespace
    order by 1
"""


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is wrong with them, by name, and the statements that mend it."""

    half_made: list[str]
    missing: list[str]
    mends: list[str]


async def look(conn: Connection) -> Indexes:
    """What a migration has made is not made again by it: a statement of its own has to."""
    found = {name: valid async for name, valid in await conn.execute(FOUND)}
    made = ours()
    half_made = [name for name, valid in found.items() if not valid]
    missing = [name for name in made if name not in found]
    mends = [
        f"reindex index concurrently {one};" if one in made else f"drop index concurrently {one};"
        for one in half_made
    ]
    return Indexes(half_made, missing, mends + [made[one] for one in missing])
