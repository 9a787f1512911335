"""A connection to an address that was judged, and nothing looked up after that.

httpcore asks for a host and port; it gets a socket to one of the addresses that the guard let
through, so a name that answers otherwise a moment later changes nothing. SNI, the certificate check
and the Host header keep the name. There are no timers here: a call's deadline covers every wait.
"""

import asyncio
import ssl
from collections.abc import Iterable
from contextvars import ContextVar

import httpcore2 as httpcore
from typing_extensions import override

from procession.outbound.faults import ConnectionFailed, Fault, NameNotResolved, Timeout, TlsFailed
from procession.outbound.guard import Guard, literal
from procession.outbound.resolve import Resolve

HELD = 65_536  # bytes that wait to be read before the other side is held back
EACH = 3.0  # seconds for an address that is not the last one

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class Progress:
    """How far a try has come: what it means when its time runs out now."""

    def __init__(self) -> None:
        self.fault: type[Fault] = ConnectionFailed


PROGRESS: ContextVar[Progress] = ContextVar("progress")


class Dialler(httpcore.AsyncNetworkBackend):
    """Resolves a name once, has every answer judged, and dials what was judged."""

    def __init__(self, guard: Guard, resolve: Resolve) -> None:
        self._guard = guard
        self._resolve = resolve

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        progress = PROGRESS.get()
        progress.fault = NameNotResolved
        addresses = [host] if literal(host) else await self._resolve(host)
        progress.fault = ConnectionFailed
        judged = self._guard.judge(host, addresses)
        if not judged:
            raise NameNotResolved(host)
        for address in judged[:-1]:
            try:
                async with asyncio.timeout(EACH):
                    return await dial(host, address, port)
            except (TimeoutError, OSError):
                continue
        try:
            return await dial(host, judged[-1], port)
        except OSError:
            raise ConnectionFailed(host) from None

    @override
    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise ConnectionFailed("a socket of this machine")

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def dial(host: str, address: str, port: int) -> "Stream":
    """A stream to the address, which is never a name."""
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(lambda: Stream(host), address, port)
    return stream


class Stream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection. What is not read yet is bounded."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = bytearray()
        self._ended = False  # nothing more will come
        self._broken = False
        self._held = False
        self._written = bytearray()  # goes out at once when it is large, else with the next read
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > HELD and not self._held:
            self._held = True
            self._transport.pause_reading()
        self._wake()

    @override
    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._broken = exc is not None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._flush()
        while not self._received and not self._ended:
            await self._wait()
        if not self._received and self._broken:
            raise httpcore.ReadError
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if self._held and len(self._received) <= HELD:
            self._held = False
            self._transport.resume_reading()
        return data

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        PROGRESS.get().fault = Timeout
        self._written += buffer
        if len(self._written) > HELD:
            self._flush()
        if self._ended:
            raise httpcore.WriteError

    def _flush(self) -> None:
        """Headers and body in one segment, since who writes reads next."""
        if self._written:
            self._transport.write(bytes(self._written))
            self._written.clear()

    @override
    async def aclose(self) -> None:
        self._transport.abort()  # to close politely over TLS would wait for the other side

    @override
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                self._transport, self, ssl_context, server_hostname=server_hostname
            )
        except ssl.SSLError:
            self._transport.abort()
            raise TlsFailed(self._host) from None
        except OSError:
            self._transport.abort()
            raise ConnectionFailed(self._host) from None
        assert secured is not None
        self._transport = secured
        return self

    @override
    def get_extra_info(self, info: str) -> object:
        if info == "is_readable":  # asked of an idle connection: it can only be the end of it
            return self._ended or bool(self._received)
        return None
