import asyncio
import os
import socket
import ssl
from datetime import timedelta

import pytest
import uvloop
from fix_receiver import LOOPBACK, Receiver, answers, endless

from procession.outbound.capture import EXCERPT
from procession.outbound.faults import ConnectionFailed, TlsFailed
from procession.outbound.http import Client, Rules
from procession.outbound.retry import Tries
from procession.outbound.stream import Stream

RESOLVE = {"hooks_example_com": ["127.0.0.1"], "other_example_com": ["127.0.0.1"]}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
QUICK = Tries(retries=0, each=timedelta(milliseconds=300))


@pytest.fixture
def client(make_client):
    return make_client(resolve=answers(**RESOLVE)).of("acme")


async def test_the_name_is_proved_though_an_address_is_dialled(secure_receiver, client):
    said = await client.post(secure_receiver.url(host="hooks.example.com"), content=b"hello")

    (came,) = secure_receiver.received
    assert said.status_code == 200
    assert came.sni == "hooks.example.com"
    assert came.headers["host"] == f"hooks.example.com:{secure_receiver.port}"


async def test_a_certificate_of_another_name_is_refused_and_nothing_is_sent(
    secure_receiver, client
):
    with pytest.raises(TlsFailed, match=r"^TlsFailed: other\.example\.com$") as failed:
        await client.post(secure_receiver.url(host="other.example.com"), content=b"hello")

    assert failed.value.tries == 1
    assert secure_receiver.received == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(secure_receiver):
    trust = ssl.create_default_context()
    async with Client(Rules(LOOPBACK), resolve=answers(**RESOLVE), ssl_context=trust) as client:
        with pytest.raises(TlsFailed):
            await client.of("acme").get(secure_receiver.url(host="hooks.example.com"))


async def test_an_address_is_no_name(secure_receiver, client):
    with pytest.raises(TlsFailed):
        await client.get(secure_receiver.url())


async def test_who_does_not_speak_tls_is_not_trusted(client):
    async def plain(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        with pytest.raises(TlsFailed):
            await client.get(f"https://hooks.example.com:{server.sockets[0].getsockname()[1]}/")


async def test_a_handshake_that_hangs_is_a_failed_connection(make_client):
    accepted = asyncio.Event()

    async def mute(reader, writer):
        accepted.set()
        await reader.read()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = make_client(tries=QUICK, resolve=answers(**RESOLVE)).of("acme")

    with pytest.raises(ConnectionFailed):
        await client.get(f"https://hooks.example.com:{port}/")

    assert accepted.is_set()
    server.close()


async def test_a_connection_is_used_again(secure_receiver, client):
    for _ in range(2):
        await client.get(secure_receiver.url(host="hooks.example.com"))

    assert [one.connection for one in secure_receiver.received] == [1, 1]


async def test_an_endless_body_is_cut_off(secure_receiver, client):
    ended = asyncio.Event()

    async def flood(writer):
        try:
            await endless(HEAD, b"a" * 65536)(writer)
        finally:
            ended.set()

    secure_receiver.will(flood)
    async with asyncio.timeout(5):
        said = await client.post(
            secure_receiver.url(host="hooks.example.com"), capture=EXCERPT, resend=True
        )

        await ended.wait()

    assert (said.status_code, said.content) == (200, b"a" * 4096)


def test_it_is_all_the_same_on_uvloop(authority, trust):
    async def call():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("hooks.example.com").configure_cert(context)
        receiver = await Receiver().start(context)
        async with Client(Rules(LOOPBACK), resolve=answers(**RESOLVE), ssl_context=trust) as client:
            url = receiver.url(host="hooks.example.com")
            statuses = [(await client.of("acme").post(url, content=b"x" * 100_000)).status_code]
            with pytest.raises(TlsFailed):
                await client.of("acme").post(receiver.url(host="other.example.com"))
        await receiver.stop()
        return statuses, [len(one.body) for one in receiver.received]

    assert uvloop.run(call()) == ([200], [100_000])


PLAIN = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize(("said", "fault"), [(PLAIN, TlsFailed), (b"", ConnectionFailed)])
def test_what_is_said_before_a_name_is_proved_is_no_answer(
    on_either_loop, trust, said, fault, noticed
):
    async def call(peer):
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(Stream, *peer.getsockname())
        other, _ = peer.accept()
        with other:
            other.sendall(said)
            other.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(5):
                while noticed and not stream.get_extra_info("is_readable"):
                    await asyncio.to_thread(os.sched_yield)  # a turn in which the loop reads
                with pytest.raises(fault):
                    await stream.secure(trust, "hooks.example.com")

    with socket.create_server(("127.0.0.1", 0)) as peer:
        on_either_loop(call(peer))
