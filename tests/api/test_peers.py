"""Peers that keep a connection from getting anywhere, on real sockets."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from procession.app import protocol, server
from procession.app.server import Address, listening

ASK = b"GET /%s HTTP/1.1\r\nHost: x\r\n"
BIG = 16 * 1024 * 1024


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request):
    """Both loops that may serve."""
    return ("asyncio", {"loop_factory": LOOPS[request.param]})


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


async def small(request):
    return PlainTextResponse(f"{len(await request.body())}")


class Served:
    """An application of its own, and what became of its answers."""

    def __init__(self):
        self.port, self.ended = 0, asyncio.Event()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def held(self, _):
        self.asked.set()
        await self.go.wait()
        return PlainTextResponse("held")

    async def stream(self, _):
        async def parts():
            try:
                while True:
                    yield b"a" * 65536
                    await asyncio.sleep(0)  # whether anybody is there is heard meanwhile
            finally:
                self.ended.set()

        return StreamingResponse(parts())

    @asynccontextmanager
    async def peer(self, window=2**16):
        """A connection that takes so much unasked."""
        there = socket.socket()
        there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        there.connect(("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=there, limit=window)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@pytest.fixture
async def served(watched):  # noqa: ARG001  what it serves by
    made = Served()
    routes = [
        Route("/small", small, methods=["GET", "POST"]),
        Route("/early", lambda _: PlainTextResponse("early"), methods=["POST"]),
        Route("/big", lambda _: Response(bytes(BIG))),
        Route("/stream", made.stream),
        Route("/held", made.held),
    ]
    async with asyncio.timeout(60):
        async with listening(Starlette(routes=routes), Address("127.0.0.1", 0), 1) as where:
            made.port = where.port
            yield made


@pytest.fixture
def hurry(monkeypatch):
    """From when it is called, headers have so little time."""
    return lambda seconds=0.05: monkeypatch.setattr(protocol, "PROMPT", seconds)


class Lost(asyncio.Event):
    """Set when the server has let go of a connection; `high` is how much it may have written."""

    high = None


@pytest.fixture
def watched(monkeypatch):
    event = Lost()

    class Watched(protocol.PatientProtocol):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.set_write_buffer_limits(event.high)

        def connection_lost(self, exc):
            super().connection_lost(exc)
            event.set()

    monkeypatch.setattr(server, "PatientProtocol", Watched)
    return event


@pytest.fixture
def lost(watched, monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE", 0.1)
    return watched


async def answer(reader):
    """Status, headers and body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(first.split()[1]), headers, body


async def refused(reader, code=431, name="headers-too-large"):
    """The problem that is answered, after which the connection is closed."""
    status, headers, body = await answer(reader)
    assert headers["connection"] == "close"
    assert headers["content-type"] == "application/problem+json"
    assert await reader.read() == b""
    problem = json.loads(body)
    assert (status, problem["status"], problem["code"]) == (code, code, name)
    return problem


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /" + b"a" * protocol.MOST,
        ASK % b"small" + b"X: " + b"a" * protocol.MOST,
        ASK % b"small" + b"X: a\r\n" * (protocol.MOST // 6),
        b"\r\n" * (protocol.MOST // 2 + 1),
    ],
    ids=["address", "header", "headers", "empty lines"],
)
async def test_what_has_no_end_is_refused_once_it_is_too_large(served, begun):
    async with served.peer() as (reader, writer):
        writer.write(begun)

        assert (await refused(reader))["instance"] == ""


async def test_headers_that_have_an_end_are_refused_by_their_size(served):
    async with served.peer() as (reader, writer):
        writer.write(ASK % b"small" + b"X: " + b"a" * protocol.MOST + b"\r\n\r\n")

        assert (await refused(reader))["instance"] in {"/small", ""}


async def test_headers_and_bodies_that_may_be_are_taken(served):
    async with served.peer() as (reader, writer):
        for _ in range(3):
            writer.write(ASK % b"small" + b"X: " + b"a" * (protocol.MOST - 100) + b"\r\n\r\n")
            assert (await answer(reader))[0] == 200
        writer.write(b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % BIG)
        writer.write(bytes(BIG))
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("part", [b"0\r\nX: " + b"a" * 70000, b"1;" + b"a" * 70000])
async def test_what_stands_between_the_parts_of_a_body_has_an_end_too(served, part):
    async with served.peer() as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert (await answer(reader))[0] == 200
        writer.write(part)

        await refused(reader)


NO_HTTP = {
    "method": b"FOO /small HTTP/1.1\r\nHost: x\r\n\r\n",
    "address": "GET /small?é HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    "header": ASK % b"small" + b"X: a\0b\r\n\r\n",
    "two lengths": b"POST /small HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "a part": b"POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}
no_http = pytest.mark.parametrize("sent", NO_HTTP.values(), ids=NO_HTTP)


@no_http
async def test_what_is_no_http_is_a_problem_like_any_other(served, sent):
    async with served.peer() as (reader, writer):
        writer.write(sent)

        assert (await refused(reader, 400, "malformed-request"))["instance"] == ""


POSTED = b"POST /small HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s"
BODIES = {
    "of a length": POSTED % (b"Content-Length: 7", b"GET / H"),
    "chunked": POSTED % (b"Transfer-Encoding: chunked", b"7\r\nGET / H\r\n0\r\n\r\n"),
}


@pytest.mark.parametrize("sent", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("parted", [False, True], ids=["whole", "byte by byte"])
async def test_whoever_offers_another_protocol_is_answered_in_this_one(served, sent, parted):
    """A body that was dropped was no JSON, or in a part of its own the next request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    head, _, body = sent.partition(b"\r\n\r\n")
    ask = head + b"\r\n" + offer + b"\r\n" + body
    async with served.peer() as (reader, writer):
        for _ in range(2):
            if parted:
                for one in ask:
                    writer.write(bytes([one]))
                    await writer.drain()
                    await asyncio.sleep(0)
            else:
                writer.write(ask + ask)
                assert (await answer(reader))[::2] == (200, b"7")
            assert (await answer(reader))[::2] == (200, b"7")
        writer.write(ASK % b"small" + offer + b"\r\n")
        assert (await answer(reader))[::2] == (200, b"0")


@pytest.mark.parametrize(
    "first",
    [
        b"POST /small HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\n",
        b"POST /small HTTP/1.0\r\nConnection: Upgrade\r\n",
    ],
)
async def test_an_offer_on_a_connection_that_ends_is_answered_too(served, first):
    async with served.peer() as (reader, writer):
        writer.write(first + b"Upgrade: h2c\r\nContent-Length: 7\r\n\r\nGET / H")

        assert (await answer(reader))[::2] == (200, b"7")
        assert await reader.read() == b""


@no_http
async def test_what_is_no_http_is_no_answer_to_what_came_before_it(served, sent):
    async with served.peer() as (reader, writer):
        writer.write(ASK % b"held" + b"\r\n" + (sent if b"chunked" not in sent else b"\0"))
        await served.asked.wait()
        served.go.set()

        status, headers, body = await answer(reader)

        assert (status, headers["connection"], body) == (200, "close", b"held")
        assert await reader.read() == b""


async def test_into_an_answer_that_is_under_way_nothing_is_said(served, lost):
    async with served.peer() as (reader, writer):
        writer.write(ASK % b"stream" + b"Transfer-Encoding: chunked\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"zz\r\n")
        await lost.wait()

        with suppress(ConnectionResetError):
            while part := await reader.read(65536):
                assert b"malformed-request" not in part


@pytest.mark.parametrize("begun", [b"", b"G", b"\r\n", ASK % b"small", ASK % b"small" + b"X: "])
async def test_headers_that_do_not_come_are_not_waited_for(served, hurry, begun):
    hurry()
    async with served.peer() as (reader, writer):
        writer.write(begun)

        assert await reader.read() == b""


@pytest.mark.parametrize("more", [b"\r\n", b"G", b"GET /small HTTP/1.1\r\n"])
async def test_a_second_request_that_does_not_come_is_not_waited_for(served, hurry, more):
    async with served.peer() as (reader, writer):
        writer.write(ASK % b"small" + b"\r\n")
        await answer(reader)
        hurry()
        writer.write(more)

        assert await reader.read() == b""


async def test_a_body_that_nobody_wants_is_not_waited_for(served, hurry):
    async with served.peer() as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        await answer(reader)
        hurry()
        writer.write(b"a")

        assert await reader.read() == b""


async def test_a_stream_that_nobody_takes_is_ended(served, lost):
    async with served.peer(window=4096) as (_, writer):
        writer.write(ASK % b"stream" + b"\r\n")

        await lost.wait()
        await served.ended.wait()


@pytest.mark.parametrize("high", [None, 2 * BIG], ids=["paused", "all of it written"])
async def test_an_answer_that_nobody_takes_is_not_kept(served, lost, high):
    lost.high = high
    async with served.peer(window=4096) as (reader, writer):
        writer.write(ASK % b"big" + b"\r\n")

        await lost.wait()

        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await answer(reader)


async def test_a_request_that_has_come_is_answered_however_long_its_body_takes(served, hurry):
    hurry(0.3)
    async with served.peer() as (reader, writer):
        writer.write(b"POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
        async with served.peer() as (silent, _):
            assert await silent.read() == b""
        writer.write(b"a")

        assert (await answer(reader))[0] == 200
        writer.write(b"G")
        assert await reader.read() == b""
