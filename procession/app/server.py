"""Serving an ASGI application for as long as a block lasts.

uvicorn's own signal handling raises the signal again once it has served, and what should follow
would not: here whoever serves decides when to stop. The address is bound before the server is made,
so that one in use is an error with a name and not an exit of uvicorn's.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn import Config, Server

from procession.app.forwarded import forwarded
from procession.app.protocol import PatientProtocol
from procession.app.refusal import RefusalError

log = logging.getLogger(__name__)


class ListenError(RefusalError):
    """The address cannot be listened on. The message says which and why."""

    def __init__(self, address: "Address", number: int) -> None:
        what = f"{address.host} port {address.port}"
        super().__init__(f"Cannot listen on {what}: {os.strerror(number)}.")
        self.is_of_port = number in {errno.EADDRINUSE, errno.EACCES}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 for any that is free."""

    host: str
    port: int


class QuietServer(Server):
    """uvicorn, which leaves signals alone and says when it serves."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def listening(
    app: ASGIApp, address: Address, grace: int, what: str = ""
) -> AsyncGenerator[Address]:
    """Serve while the block lasts; then let requests end for `grace` seconds. Yields where.

    What it is for is told beside where it is.
    """
    with _bound(address) as bound:
        server = QuietServer(_config(app, grace))
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            up = asyncio.create_task(server.up.wait())
            await asyncio.wait({serving, up}, return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            where = Address(address.host, bound.getsockname()[1])
            log.info("Listening on %s port %s%s", where.host, where.port, what and f" for {what}")
            yield where
        finally:
            server.should_exit = True
            await serving


def _config(app: ASGIApp, grace: int) -> Config:
    return Config(
        forwarded(app),
        proxy_headers=False,  # it is what reads them
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=grace,
    )


@contextmanager
def _bound(address: Address) -> Generator[socket.socket]:
    six = ":" in address.host
    family = socket.AF_INET6 if six else socket.AF_INET
    both = six and socket.has_dualstack_ipv6()
    try:
        bound = socket.create_server(
            (address.host, address.port), family=family, backlog=2048, dualstack_ipv6=both
        )
    except OSError as error:
        raise ListenError(address, error.errno or 0) from None
    with bound:
        yield bound
