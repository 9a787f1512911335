"""A connection to an address that was judged, and nothing looked up after that.

The HTTP protocol is httpcore's; the connection under it is ours, so that it leads to one of the
addresses that the guard let through, and a name that answers otherwise a moment later changes
nothing. There are no timers here: the deadline of a try covers every wait.
"""

import asyncio
import ssl
from typing import cast

import httpcore2 as httpcore
from typing_extensions import override

from procession.outbound.faults import ConnectionFailed, NameNotResolved, Timeout, TlsFailed
from procession.outbound.guard import Guard, Target, literal
from procession.outbound.progress import HEAD, PROGRESS, Progress
from procession.outbound.resolve import Resolve

HELD = 65_536  # bytes that wait to be read before the other side is held back
PIECE = 4_096  # of headers at a time: many small answers in a large piece would hold up all others
EACH = 3.0  # seconds for an address that is not the last one


class TooMuchError(httpcore.ReadError):
    """More of a body came than is read of it."""


async def connect(aim: Target, guard: Guard, resolve: Resolve, secured: ssl.SSLContext) -> "Stream":
    """Look the name up once, have every answer judged, and connect to what was judged.

    The certificate is checked against the name.
    """
    progress = PROGRESS.get()
    progress.fault = NameNotResolved
    addresses = [aim.host] if literal(aim.host) else await resolve(aim.host)
    progress.fault = ConnectionFailed
    judged = guard.judge(aim.host, addresses)
    if not judged:
        raise NameNotResolved(aim.host)
    stream = await _dial_any(aim, judged)
    if aim.scheme == b"https":
        await stream.secure(secured, aim.host)
    return stream


async def _dial_any(aim: Target, judged: list[str]) -> "Stream":
    for address in judged[:-1]:
        try:
            async with asyncio.timeout(EACH):
                return await _dial(aim, address)
        except (TimeoutError, OSError):
            continue
    try:
        return await _dial(aim, judged[-1])
    except OSError:
        raise ConnectionFailed(aim.host) from None


async def _dial(aim: Target, address: str) -> "Stream":
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(Stream, address, aim.port)  # an address, never a name
    return stream


class Stream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection. What is not read yet is bounded."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._ended = False  # nothing more will come
        self._broken = False
        self._held = False
        self._written = bytearray()  # goes out at once when it is large, else with the next read
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

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
        progress = PROGRESS.get()
        if not progress.answered:
            max_bytes = await self._of_the_head(progress, max_bytes)
        elif self._received:
            max_bytes = self._of_the_body(progress, max_bytes)
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        if self._held and len(self._received) <= HELD:
            self._held = False
            self._transport.resume_reading()
        return data

    async def _of_the_head(self, progress: Progress, max_bytes: int) -> int:
        """How much to read before the headers have ended. Others have their turn in between."""
        if progress.head <= 0 or progress.lines <= 0:
            raise httpcore.ReadError
        if progress.head < HEAD:
            await asyncio.sleep(0)
        most = min(max_bytes, PIECE)
        progress.head -= min(most, len(self._received))
        progress.lines -= self._received.count(b"\n", 0, most)
        return most

    def _of_the_body(self, progress: Progress, max_bytes: int) -> int:
        if progress.body <= 0:
            raise TooMuchError
        most = min(max_bytes, progress.body)
        progress.body -= min(most, len(self._received))
        return most

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._ended:  # and nothing of it is written later, by who reads what came before the end
            raise httpcore.WriteError
        self._written += buffer
        if len(self._written) > HELD:
            self._flush()

    def _flush(self) -> None:
        """Headers and body in one segment, since who writes reads next."""
        if self._written:
            PROGRESS.get().fault = Timeout
            self._transport.write(bytes(self._written))
            self._written.clear()

    @override
    async def aclose(self) -> None:
        self._transport.abort()  # to close politely over TLS would wait for the other side

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from here on, with whoever can prove to be the host."""
        try:
            self._transport = await self._secured(context, host)
        except BaseException:
            self._transport.abort()
            raise

    async def _secured(self, context: ssl.SSLContext, host: str) -> asyncio.Transport:
        if self._received:  # before anybody has proved anything: it would be read as the answer
            raise TlsFailed(host)
        if self._ended:
            raise ConnectionFailed(host)
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._transport, self, context, server_hostname=host)
        except ssl.SSLError:
            raise TlsFailed(host) from None
        except OSError:
            raise ConnectionFailed(host) from None
        # uvloop's handshake may end with the connection, and no error
        if secured is None or secured.get_extra_info("cipher") is None:
            raise ConnectionFailed(host)
        return secured

    @override
    def get_extra_info(self, info: str) -> object:
        if info == "is_readable":  # asked of an idle connection: it can only be the end of it
            return self._ended or bool(self._received)
        return None
