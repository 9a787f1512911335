"""Everything in one process, for a person at one machine: Postgres, API, worker and a sample.

With DATABASE_URL set, the database is that one and no Postgres is started. What else must be set
and is not is made on the first start and kept in the data folder.
"""

import argparse
import asyncio
import logging
import os
import signal
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from procession.app import compose, keep, sample, tracing
from procession.app.api import serving
from procession.app.checks import read_or_exit
from procession.app.interrupt import stops
from procession.app.local import Local, alone, serve
from procession.app.metrics import Metrics
from procession.app.receiver import Message, receiver
from procession.app.refusal import ArgumentError, RefusalError
from procession.app.sample import Api, Sample
from procession.app.say import say
from procession.app.server import Address, ListenError, listening
from procession.app.settings import Settings
from procession.app.signals import after, at_once, on_stop
from procession.app.start import arrive, begin, join, refusing, run
from procession.app.worker import database_of, make_runner, options_of
from procession.engine.access import Actor, ActorKind
from procession.outbound.faults import Fault
from procession.outbound.http import Client
from procession.queue import access, keys
from procession.queue.audit import By
from procession.queue.keys import NewKey
from procession.queue.migrate import migrate
from procession.queue.pool import Pool, make_pool

log = logging.getLogger(__name__)

MORE = """
Publish one of your own, and read its run:

  curl -X PUT {address}/api/entries/Article/mine \\
    -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{{"status": "Published", "data": {{"Title": "My own"}}}}'

  curl '{address}/api/workflow-runs?entryId=mine' -H 'Authorization: Bearer {key}'
"""

OTHER_PORT = """ Choose another one by --port, with make by ARGS="--port 8080"."""
LOOPBACK = "127.0.0.0/8,::1/128"
UP = Actor(kind=ActorKind.CONTROL, id="up", name="procession up")
LEAVING = 2.0  # seconds for a Postgres that was told to stop; it goes on to by itself


@refusing()
def main(given: argparse.Namespace) -> None:
    """`procession up`."""
    for one in stops():  # until the loop takes them over
        signal.signal(one, _interrupted)
    # First without a trace: a start that is refused leaves nothing behind.
    read_or_exit("up", **instead(lambda _, make: make(), given.port))
    settings = begin("up", **instead(partial(keep.kept, made(given.data)), given.port))
    is_ours = not os.environ.get("DATABASE_URL")
    with serve(given.data / "postgres") if is_ours else nullcontext() as local:
        if local:
            settings = settings.model_copy(update={"database_url": local.url})
        try:
            with tracing.traced("up"):
                run(Up(settings, given.data, local, wants_sample=not given.no_sample).run())
        except ListenError as error:
            raise RefusalError(f"{error}{OTHER_PORT if error.is_of_port else ''}") from None
        finally:
            for one in stops():  # Postgres stops now, and a third Ctrl-C should not leave it behind
                signal.signal(one, signal.SIG_IGN)
    say("Stopped.")


def _interrupted(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def made(folder: Path) -> Path:
    """The data folder, made when it is not there."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ArgumentError(f"Nothing can be kept in {folder} (--data): {why}.") from None


def instead(kept: Callable[[str, Callable[[], str]], str], port: str | None) -> dict[str, str]:
    """What stands in for the variables that are not set, on a machine of one's own."""
    makes: dict[str, Callable[[], str]] = {
        "DATABASE_URL": lambda: "postgresql://",
        "CONTROL_TOKEN": lambda: kept("control-token", keep.control_token),
        "SECRETS__KEYS": lambda: kept("secrets-keys", keep.secrets_keys),
        "HOST": lambda: "127.0.0.1",
        "LOG__FORMAT": lambda: "text",
        "OUTBOUND__ALLOWED_NETWORKS": lambda: LOOPBACK,
        "WEBHOOKS__ALLOW_INSECURE_SIGNED_URLS": lambda: "true",
    }
    unset = {name: make() for name, make in makes.items() if not os.environ.get(name)}
    return unset | ({"PORT": port} if port else {})


@dataclass(frozen=True, slots=True)
class Up:
    """The one process."""

    settings: Settings
    folder: Path
    local: Local | None
    wants_sample: bool

    async def run(self) -> None:
        """Migrate, then serve and work until asked to stop."""
        stop = asyncio.Event()
        with on_stop(stop.set, self._at_once, self.settings.shutdown_grace_seconds):
            if not await arrive(self.settings.database, stop):
                return
            await asyncio.to_thread(migrate, self.settings.database)
            metrics = Metrics()  # of API and worker together: they are one process
            async with (
                make_pool(self.settings.database) as pool,
                make_pool(database_of(self.settings)) as workers,
                compose.client(self.settings) as client,
                serving(self.settings, pool, stop, metrics) as address,
                asyncio.TaskGroup() as both,
            ):
                ring = compose.ring(self.settings)
                await join(pool, self.settings.database__schema, "worker", ring)
                options = options_of(self.settings)
                runner = make_runner(self.settings, options, workers, client, metrics)
                both.create_task(runner.run(stop))
                watching = both.create_task(self._watch())
                showing = both.create_task(self._show(pool, client, address))
                await stop.wait()
                showing.cancel()
                watching.cancel()

    async def _watch(self) -> None:
        """Start Postgres again when somebody has killed it."""
        while self.local:
            await asyncio.sleep(1)
            if self.local.has_ended:
                log.warning("Postgres has ended. Starting it again.")
                await asyncio.to_thread(self.local.restart)

    def _at_once(self) -> None:
        after(LEAVING, at_once)
        if self.local:
            self.local.leave()
        at_once()

    async def _show(self, pool: Pool, client: Client, address: Address) -> None:
        api = Api(client, _url(address), await self._key(pool))
        say(self._welcome(api))
        try:
            if self.wants_sample:
                await self._sample(api)
        except (RefusalError, Fault) as error:
            say(f"The sample cannot be shown: {error or type(error).__name__}")

    async def _sample(self, api: Api) -> None:
        """Make the sample when nothing is there yet, and play its receiver's part."""
        got = asyncio.Queue[Message]()
        known = sample.remembered(self.folder) or Sample(0, sample.new_secret())
        app = receiver(known.secret, got.put_nowait)
        at = Address("127.0.0.1", known.port)
        async with listening(app, at, grace=1, what="the messages of the sample") as where:
            known = Sample(where.port, known.secret)
            with alone(self.folder / "sample"):
                if is_new := await sample.is_wanted(api):
                    sample.remember(self.folder, known)
                    await sample.make(api, known)
            if is_new:
                await sample.fire(api, got)
            say(MORE.format(address=api.address, key=api.key))
            while True:
                say(f"The receiver got {await got.get()}")

    async def _key(self, pool: Pool) -> str:
        """The key of an earlier start, when it is good still, or a new one."""
        file = self.folder / "key"
        async with pool.connection() as conn:
            if file.exists():
                key = file.read_text(encoding="utf-8").strip()
                found = await access.find_key(conn, key.split("_")[1])
                if found and found.live:
                    return key
            created = await keys.create_key(conn, "default", NewKey("local", "Admin"), By(UP))
        keep.keep(self.folder, "key", created.secret)
        return created.secret

    def _welcome(self, api: Api) -> str:
        database = f"Postgres in {self.folder / 'postgres'}" if self.local else "DATABASE_URL"
        lines = {"API": api.address, "database": database, "key": f"{api.key}  ({self.folder}/key)"}
        return "\n".join(
            ["", f"Procession {version('procession')} is up. Ctrl-C stops it.", ""]
            + [f"  {name:<10}{value}" for name, value in lines.items()]
        )


def _url(address: Address) -> str:
    """Where a caller on this machine finds it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(address.host, address.host)  # noqa: S104  not to listen on
    return f"http://[{host}]:{address.port}" if ":" in host else f"http://{host}:{address.port}"
