"""The commands that do one thing and end."""

import argparse
import asyncio

from procession.app.settings import Settings
from procession.app.start import arrive, arrive_and_check, begin, refusing, run
from procession.engine.access import Actor, ActorKind
from procession.queue import keys
from procession.queue import migrate as migrations
from procession.queue.audit import By
from procession.queue.keys import NewKey
from procession.queue.pool import make_pool

PATIENCE = 60.0  # seconds to wait for Postgres: somebody waits for this command to end
COMMAND_LINE = Actor(kind=ActorKind.CONTROL, id="command-line", name="Command line")


@refusing()
def migrate(_: argparse.Namespace) -> None:
    """Bring the schema up to this release, and say what that took."""
    settings = begin("migrate")
    run(arrive(settings.database, asyncio.Event(), PATIENCE))
    applied = migrations.migrate(settings.database)
    print("\n".join(f"Applied {name}" for name in applied) or "Nothing to do")  # noqa: T201


@refusing()
def create_key(given: argparse.Namespace) -> None:
    """Make a key and print it."""
    wanted = NewKey(given.tenant, given.name, given.role, given.expires_at)
    print(run(_made(begin("migrate"), wanted)))  # noqa: T201


async def _made(settings: Settings, wanted: NewKey) -> str:
    await arrive_and_check(settings.database, asyncio.Event(), PATIENCE)
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        return await keys.add_key(conn, wanted, By(COMMAND_LINE))
