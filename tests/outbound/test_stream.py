import asyncio
import os
import socket
import ssl

import httpcore2 as httpcore
import pytest
from fix_receiver import LOOPBACK, answers

from procession.outbound.guard import Guard, target
from procession.outbound.progress import PROGRESS, Progress
from procession.outbound.stream import HELD, Stream, connect

PIECE = b"a" * 65_536


async def test_what_is_not_read_holds_the_sender_back(receiver):
    held = asyncio.get_running_loop().create_future()

    async def flood(writer):
        for _ in range(1024):
            writer.write(PIECE)
            try:
                async with asyncio.timeout(0.5):
                    await writer.drain()
            except TimeoutError:
                held.set_result(True)
                return
        held.set_result(False)

    receiver.will(flood)
    progress = Progress()
    PROGRESS.set(progress)
    aim = target(receiver.url())
    stream = await connect(aim, Guard(LOOPBACK), answers(), ssl.create_default_context())

    await stream.write(b"GET / HTTP/1.1\r\n\r\n")
    progress.answered, progress.body = True, 128 * HELD
    first = await stream.read(HELD)

    assert first
    assert await held
    for _ in range(64):
        assert await stream.read(HELD)
    await stream.aclose()


async def test_headers_and_body_leave_in_one_piece():
    pieces = []

    async def take(reader, writer):
        pieces.append(await reader.read(HELD))
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        PROGRESS.set(Progress())
        aim = target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        stream = await connect(aim, Guard(LOOPBACK), answers(), ssl.create_default_context())
        await stream.write(b"POST / HTTP/1.1\r\n\r\n")
        await stream.write(b"hello")
        await stream.write(b"")

        assert await stream.read(HELD) == b""

    assert pieces == [b"POST / HTTP/1.1\r\n\r\nhello"]


def test_who_is_gone_before_anything_is_written_was_sent_nothing(on_either_loop):
    async def call(peer):
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(Stream, *peer.getsockname())
        other, _ = peer.accept()
        other.close()
        while not stream.get_extra_info("is_readable"):
            await asyncio.to_thread(os.sched_yield)  # a turn in which the loop reads
        PROGRESS.set(progress := Progress())

        with pytest.raises(httpcore.WriteError):
            await stream.write(b"POST / HTTP/1.1\r\n\r\n")

        assert await stream.read(HELD) == b""
        assert not progress.went
        await stream.aclose()

    with socket.create_server(("127.0.0.1", 0)) as peer:
        on_either_loop(call(peer))
