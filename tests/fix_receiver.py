"""A receiver on 127.0.0.1 that does what a test tells it, well or badly, and records what came."""

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import trustme
import uvloop

from procession.outbound.guard import networks
from procession.outbound.http import Client, Rules

LOOPBACK = networks("127.0.0.0/8,::1/128")


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]  # by lower-case name
    names: list[str]  # as they came
    body: bytes
    connection: int
    sni: str | None


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status=200, body=b"", headers: Iterable[tuple[str, str]] = ()) -> Answer:
    head = [f"HTTP/1.1 {status} Something", f"Content-Length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in headers]
    return raw("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def redirect(to: str, status=302) -> Answer:
    return answer(status, headers=[("Location", to)])


def raw(*pieces: bytes) -> Answer:
    async def act(writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return act


async def hang(_writer):
    await asyncio.Event().wait()


async def close(writer):
    writer.close()


async def reset(writer):
    """Cut the connection without a word of farewell."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def drip(head: bytes, piece: bytes, every: float) -> Answer:
    """Send a little at a time, for ever."""

    async def act(writer):
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every)

    return act


def endless(head: bytes, piece: bytes) -> Answer:
    """Send as fast as it is taken, for ever."""

    async def act(writer):
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return act


@dataclass
class Receiver:
    """Answers 200 unless a test has said otherwise, in the order that it said."""

    scheme: str = "http"
    port: int = 0
    received: list[Received] = field(default_factory=list)
    script: deque[Answer] = field(default_factory=deque)
    connections: int = 0
    _news: asyncio.Queue = field(default_factory=asyncio.Queue)
    _serving: set[asyncio.Task] = field(default_factory=set)
    _sni: dict[int, str] = field(default_factory=dict)

    async def start(self, context: ssl.SSLContext | None = None):
        if context is not None:
            self.scheme = "https"
            context.sni_callback = self._note_name
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def url(self, path="/", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.port}{path}"

    def will(self, *answers: Answer):
        self.script.extend(answers)

    async def next(self) -> Received:
        """The next request, once it has come."""
        async with asyncio.timeout(10):
            return await self._news.get()

    def _note_name(self, sock, name, context):
        self._sni[id(sock)] = name

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._serving.add(task)
        self.connections += 1
        number = self.connections
        sni = self._sni.get(id(writer.get_extra_info("ssl_object")))
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while not writer.is_closing():
                    self._note(await _request(reader, number, sni))
                    act = self.script.popleft() if self.script else answer()
                    await act(writer)
        finally:
            self._serving.discard(task)
            with suppress(OSError):
                writer.close()

    def _note(self, received):
        self.received.append(received)
        self._news.put_nowait(received)


async def _request(reader, number, sni) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = [line.split(": ", 1) for line in lines]
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, path, headers, [name for name, _ in pairs], body, number, sni)


@pytest.fixture
async def receiver():
    one = await Receiver().start()
    yield one
    await one.stop()


@pytest.fixture(scope="session")
def authority():
    """Whom the clients of these tests trust."""
    return trustme.CA()


@pytest.fixture
async def secure_receiver(authority):
    """Proves to be hooks.example.com, and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example.com").configure_cert(context)
    one = await Receiver().start(context)
    yield one
    await one.stop()


@pytest.fixture(scope="session")
def trust(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@pytest.fixture
async def make_client(trust):
    """Makes clients that may call this machine, and closes them."""
    made = []

    def make(allowed=LOOPBACK, *, tries=None, breaker=None, **seams):
        chosen = {"tries": tries, "breaker": breaker}
        rules = Rules(allowed, **{name: one for name, one in chosen.items() if one is not None})
        made.append(Client(rules, ssl_context=trust, **seams))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


def answers(**names):
    """A resolver that knows these names, and counts how often it is asked."""

    async def resolve(host):
        resolve.asked.append(host)
        found = names[host.replace(".", "_").replace("-", "_")]
        return found.pop(0) if isinstance(found[0], list) else list(found)

    resolve.asked = []
    return resolve


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def on_either_loop(request):
    """Runs something: processes use the one loop, and most tests the other."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run
