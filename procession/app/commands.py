"""The commands that do one thing and end."""

import argparse
import asyncio
from datetime import timedelta

from procession.actions.load import built_in, load
from procession.app import compose
from procession.app.refusal import ArgumentError, RefusalError
from procession.app.say import say
from procession.app.settings import Settings
from procession.app.start import arrive, arrive_and_check, begin, refusing, run
from procession.engine.access import Actor, ActorKind
from procession.engine.credentials import declared
from procession.engine.errors import ValidationFailedError
from procession.queue import keys
from procession.queue import migrate as migrations
from procession.queue import sweep as sweeps
from procession.queue.access import knows_tenant
from procession.queue.audit import By
from procession.queue.keys import NewKey
from procession.queue.outage import FAULTS, REFUSED, why
from procession.queue.pool import make_pool
from procession.queue.rekey import Rekey, Rekeyed
from procession.queue.sweep import Swept, alone

PATIENCE = 60.0  # seconds to wait for Postgres: somebody waits for this command to end
NO_KEY = "No key opens it, add the one it was written under to SECRETS__KEYS or enter it again"
COMMAND_LINE = Actor(kind=ActorKind.CONTROL, id="command-line", name="Command line")


@refusing()
def migrate(_: argparse.Namespace) -> None:
    """Bring the schema up to this release, and say what that took."""
    settings = begin("migrate")
    run(arrive(settings.database, asyncio.Event(), PATIENCE))
    applied = migrations.migrate(settings.database)
    say("\n".join(f"Applied {name}" for name in applied) or "Nothing to do")


@refusing()
def create_key(given: argparse.Namespace) -> None:
    """Make a key and print it."""
    new = NewKey(given.name, given.role, given.expires_at)
    say(run(_created(begin("key create"), given.tenant, new)))


async def _created(settings: Settings, tenant: str, new: NewKey) -> str:
    await arrive_and_check(settings.database, asyncio.Event(), PATIENCE)
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        if not await knows_tenant(conn, tenant):
            raise ArgumentError(f"There is no tenant {tenant} (--tenant).")
        try:
            created = await keys.create_key(conn, tenant, new, By(COMMAND_LINE))
        except ValidationFailedError as error:
            reasons = {
                "role": f"There is no role {new.role} in the tenant {tenant} (--role).",
                "expiresAt": f"{new.expires_at} is over already (--expires-at).",
            }
            raise ArgumentError(" ".join(reasons[one.name] for one in error.faults)) from None
    return created.secret


@refusing()
def rekey(_: argparse.Namespace) -> None:
    """Write every stored secret again under the first key, and say what that took."""
    found = run(_rekeyed(begin("rekey")))
    say(f"Rewrote {found.renewed} secrets; {found.current} were under the first key already.")
    told = [f"{NO_KEY}: {one}" for one in found.unreadable]
    told += [f"Written by a newer release, whose rekey it needs: {one}" for one in found.left]
    if told:
        raise RefusalError("\n".join([f"{len(told)} could not be rewritten.", *told]))


async def _rekeyed(settings: Settings) -> Rekeyed:
    await arrive_and_check(settings.database, asyncio.Event(), PATIENCE)
    catalogue = load(built_in()).catalogue()
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        return await Rekey(compose.ring(settings), declared(catalogue)).run(conn)


@refusing()
def sweep(_: argparse.Namespace) -> None:
    """Remove all that is older than its retention, and say how much that was."""
    say(f"Swept: {run(_swept(begin('sweep')))}")


async def _swept(settings: Settings) -> Swept:
    await arrive_and_check(settings.database, asyncio.Event(), PATIENCE)
    swept, removals = Swept(), compose.windows(settings).removals
    async with make_pool(settings.database) as pool:
        try:
            async with alone(pool, every=timedelta()) as conn:
                if conn is None:
                    raise RefusalError("A worker sweeps at this moment.")
                await sweeps.sweep(conn, removals, swept, to_the_end=True)
        except REFUSED as error:
            raise RefusalError(f"The sweep ended early: {swept}. {why(error)}") from None
        except FAULTS as error:
            raise RefusalError(f"The sweep ended early ({type(error).__name__}): {swept}") from None
        except asyncio.CancelledError:
            say(f"Swept until it was stopped: {swept}")
            raise
    return swept
