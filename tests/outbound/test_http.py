import asyncio
import re
import socket
from contextlib import suppress
from datetime import timedelta

import pytest
from fix_receiver import answer, answers, close, drip, endless, hang, raw, redirect, reset

from procession.outbound import connections
from procession.outbound.capture import EXCERPT
from procession.outbound.faults import (
    AddressRefused,
    AnswerTooLarge,
    ConnectionFailed,
    ConnectionLost,
    NameNotResolved,
    Timeout,
)
from procession.outbound.progress import Progress
from procession.outbound.retry import Tries

ONCE = Tries(retries=0)
QUICK = Tries(retries=0, each=timedelta(milliseconds=200))


async def test_a_call_is_what_was_asked_for_and_no_more(receiver, make_client):
    client = make_client().of("acme")

    said = await client.post(receiver.url("/hook?a=b"), content=b"hello", headers={"X-One": "1"})

    (came,) = receiver.received
    assert said.status_code == 200
    assert (came.method, came.path, came.body) == ("POST", "/hook?a=b", b"hello")
    assert came.headers.pop("user-agent").startswith("Procession/")
    assert came.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept-encoding": "identity",
        "x-one": "1",
        "content-length": "5",
    }


async def test_an_answer_is_read(receiver, make_client):
    receiver.will(answer(201, b'{"id":7}', [("Content-Type", "application/json")]))

    said = await make_client().of("acme").post(receiver.url(), json={"amount": 1})

    assert (said.status_code, said.json(), said.tries) == (201, {"id": 7}, 1)
    assert said.headers["content-type"] == "application/json"
    assert receiver.received[0].headers["content-type"] == "application/json"
    assert receiver.received[0].body == b'{"amount":1}'


async def test_a_connection_is_used_again(receiver, make_client):
    client = make_client().of("acme")

    for _ in range(3):
        await client.get(receiver.url())

    assert [one.connection for one in receiver.received] == [1, 1, 1]


async def test_calls_at_once_have_a_connection_each(receiver, make_client):
    client = make_client().of("acme")

    await asyncio.gather(*(client.get(receiver.url()) for _ in range(5)))

    assert sorted(one.connection for one in receiver.received) == [1, 2, 3, 4, 5]


async def test_a_connection_that_the_receiver_closed_is_not_used_again(receiver, make_client):
    client = make_client(tries=ONCE).of("acme")

    async def polite(writer):
        await answer()(writer)
        writer.close()

    receiver.will(polite)
    await client.post(receiver.url())
    await asyncio.sleep(0.05)  # the end of a connection is noticed by the loop only
    await client.post(receiver.url())

    assert [one.connection for one in receiver.received] == [1, 2]


@pytest.mark.parametrize(
    "more",
    [b"HTTP/1.1 201 Next\r\nContent-Length: 0\r\n\r\n", b" and more", b"\r\n"],
    ids=["an answer", "too long a body", "a line"],
)
async def test_what_comes_behind_an_answer_is_no_answer_to_the_next_call(
    receiver, make_client, more
):
    client = make_client(tries=ONCE).of("acme")
    receiver.will(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + more), answer(500))

    first = await client.post(receiver.url())
    second = await client.post(receiver.url())

    assert (first.status_code, first.content, second.status_code) == (200, b"ok", 500)
    assert [one.connection for one in receiver.received] == [1, 2]


async def test_a_connection_is_kept_for_its_owner_alone(receiver, make_client):
    client = make_client()
    acme, other = client.of("acme"), client.of("other")
    owners = [acme, other, acme.owned_by("ledger"), acme.owned_by("mill"), other.owned_by("mill")]

    for one in owners * 2:
        await one.put(receiver.url())
    await client.once(
        "POST", receiver.url(), within=timedelta(seconds=5), progress=Progress(), content=b"a"
    )

    assert [one.connection for one in receiver.received] == [1, 2, 3, 4, 5] * 2 + [6]


async def test_what_may_not_be_sent_twice_takes_none_that_the_receiver_may_be_closing(
    receiver, make_client
):
    client = make_client().of("acme")

    for send in (client.post, client.patch, client.post, client.put, client.get):
        await send(receiver.url())
    await client.post(receiver.url(), resend=True)
    await client.post(receiver.url(), headers={"Idempotency-Key": "a"})

    assert [one.connection for one in receiver.received] == [1, 2, 3, 3, 3, 3, 3]


async def test_the_connections_that_are_kept_are_so_many_and_the_oldest_goes(
    receiver, make_client, monkeypatch
):
    monkeypatch.setattr(connections, "KEPT", 2)
    client = make_client()

    for tenant in ("one", "two", "three", "three", "two", "one"):
        await client.of(tenant).get(receiver.url())

    assert [one.connection for one in receiver.received] == [1, 2, 3, 3, 2, 4]


class Ends:
    """A server that answers when it may, and knows how many connections have ended."""

    def __init__(self):
        self.may, self.asked = asyncio.Event(), asyncio.Semaphore(0)
        self._ended = asyncio.Semaphore(0)

    async def __call__(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.asked.release()
                await self.may.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        self._ended.release()

    async def come(self, many):
        async with asyncio.timeout(2):  # less than a connection is kept
            for _ in range(many):
                await self._ended.acquire()


@pytest.fixture
async def ends():
    one = Ends()
    async with await asyncio.start_server(one, "127.0.0.1", 0) as server:
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        yield one


async def test_a_connection_is_closed_when_it_was_kept_long_enough(make_client, ends, monkeypatch):
    monkeypatch.setattr(connections, "KEPT_SECONDS", 0.1)
    client = make_client()
    ends.may.set()

    for _ in range(2):  # with a timer that starts anew
        await asyncio.gather(*(client.of(one).get(ends.url) for one in ("acme", "other", "more")))
        await ends.come(3)


async def test_a_call_that_outlives_its_client_leaves_no_connection(make_client, ends):
    client = make_client()
    calling = asyncio.create_task(client.of("acme").get(ends.url))
    await ends.asked.acquire()

    await client.aclose()
    ends.may.set()

    assert (await calling).status_code == 200
    await ends.come(1)


async def skips_bodies(reader, writer, seen, serving):
    """Answers each head that it reads, and reads nothing else of a request but a POST's body."""
    serving.append(asyncio.current_task())
    with suppress(asyncio.IncompleteReadError, OSError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(head.partition(" HTTP/")[0])
            length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
            if head.startswith("POST") and length:
                await reader.readexactly(int(length[1]))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            if "connection: close" in head.lower():
                break
    writer.close()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"])
async def test_a_body_that_is_skipped_is_not_read_as_a_request(make_client, method):
    seen, serving = [], []
    server = await asyncio.start_server(
        lambda reader, writer: skips_bodies(reader, writer, seen, serving), "127.0.0.1", 0
    )
    made = make_client(tries=ONCE)
    client = made.of("acme")
    hidden = b"GET /hidden HTTP/1.1\r\nHost: x\r\nX-Rest: "

    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await client.request(method, f"{url}/a", content=hidden)
        await client.post(f"{url}/b", content=b"mine", headers={"Authorization": "Bearer mine"})
        await made.aclose()
        await asyncio.gather(*serving)

    assert seen == [f"{method} /a", "POST /b"]


async def test_a_name_is_looked_up_once_and_its_judged_address_dialled(receiver, make_client):
    resolve = answers(hooks_example=[["127.0.0.1"], ["10.0.0.1"]])
    client = make_client(resolve=resolve).of("acme")

    said = await client.get(receiver.url(host="hooks.example"))

    assert said.status_code == 200
    assert resolve.asked == ["hooks.example"]
    assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_a_kept_connection_needs_no_second_look(receiver, make_client):
    resolve = answers(hooks_example=[["127.0.0.1"], ["10.0.0.1"]])
    client = make_client(resolve=resolve).of("acme")
    url = receiver.url(host="hooks.example")

    await client.get(url)
    await client.get(url)

    assert resolve.asked == ["hooks.example"]


async def test_a_name_that_turns_inward_is_refused_at_the_next_connection(receiver, make_client):
    resolve = answers(hooks_example=[["127.0.0.1"], ["169.254.169.254"]])
    client = make_client(resolve=resolve).of("acme")
    url = receiver.url(host="hooks.example")
    receiver.will(raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
    await client.get(url)

    with pytest.raises(AddressRefused, match=r"^AddressRefused: hooks\.example$") as refused:
        await client.get(url)

    assert refused.value.tries == 1
    assert len(receiver.received) == 1


async def test_one_inward_answer_of_a_name_refuses_it(receiver, make_client):
    resolve = answers(hooks_example=["127.0.0.1", "10.0.0.1"])

    with pytest.raises(AddressRefused):
        await make_client(resolve=resolve).of("acme").get(receiver.url(host="hooks.example"))

    assert receiver.connections == 0


async def test_a_literal_address_is_judged_too(receiver, make_client):
    for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "[::1]"):
        with pytest.raises(AddressRefused):
            await make_client(allowed=()).of("acme").get(receiver.url(host=host))

    assert receiver.connections == 0


async def test_the_systems_own_names_lead_nowhere_inside(receiver, make_client):
    with pytest.raises(AddressRefused, match="localhost"):
        await make_client(allowed=()).of("acme").get(receiver.url(host="localhost"))

    assert receiver.connections == 0


async def test_the_next_address_is_dialled_when_one_does_not_answer(receiver, make_client):
    resolve = answers(hooks_example=["127.0.0.2", "127.0.0.1"])

    said = await make_client(resolve=resolve).of("acme").get(receiver.url(host="hooks.example"))

    assert said.status_code == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_the_answer(receiver, make_client, status):
    receiver.will(redirect(receiver.url("/inside"), status))

    said = await make_client().of("acme").get(receiver.url("/outside"))

    assert said.status_code == status
    assert [one.path for one in receiver.received] == ["/outside"]


async def test_cookies_are_not_kept(receiver, make_client):
    receiver.will(answer(headers=[("Set-Cookie", "a=b")]))
    client = make_client().of("acme")

    await client.get(receiver.url())
    await client.get(receiver.url())

    assert "cookie" not in receiver.received[1].headers


async def test_a_proxy_of_the_environment_is_not_used(receiver, make_client, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    said = await make_client(tries=ONCE).of("acme").get(receiver.url())

    assert said.status_code == 200


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection"])
async def test_a_header_that_frames_the_message_is_ours(receiver, make_client, name):
    with pytest.raises(ValueError, match="header"):
        await make_client().of("acme").post(receiver.url(), headers={name: "1"})

    assert receiver.connections == 0


@pytest.mark.parametrize("value", ["a\r\nX-Two: 2", "a\nb", "a\0b", "é"])
async def test_a_header_that_would_break_out_is_not_sent(receiver, make_client, value):
    with pytest.raises(ValueError, match=r".+"):
        await make_client().of("acme").post(receiver.url(), headers={"X-One": value})

    assert receiver.received == []


async def test_a_receiver_that_never_answers_costs_the_time_of_a_try(receiver, make_client):
    receiver.will(hang)

    with pytest.raises(Timeout, match=r"^Timeout: 127\.0\.0\.1$"):
        await make_client(tries=QUICK).of("acme").post(receiver.url())


async def test_headers_that_drip_do_not_stretch_a_try(receiver, make_client):
    receiver.will(drip(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", 0.01))

    with pytest.raises(Timeout):
        await make_client(tries=QUICK).of("acme").post(receiver.url())


async def test_endless_interim_answers_do_not_stretch_a_try(receiver, make_client):
    receiver.will(drip(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.001))

    with pytest.raises(Timeout):
        await make_client(tries=QUICK).of("acme").post(receiver.url())


async def test_who_goes_before_anything_was_sent_is_a_failed_connection(make_client, monkeypatch):
    dialled = asyncio.get_running_loop().create_connection

    async def late(*given):
        made = await dialled(*given)
        await asyncio.sleep(0.05)  # the end of a connection is noticed by the loop only
        return made

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", late)

    async def go(_reader, writer):
        writer.close()

    async with await asyncio.start_server(go, "127.0.0.1", 0) as server:
        client = make_client(tries=Tries(retries=1)).of("acme")
        with pytest.raises(ConnectionFailed) as failed:
            await client.post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    assert failed.value.tries == 2  # though it may not be sent twice


@pytest.mark.parametrize("end", [close, reset, raw(b"SSH-2.0-OpenSSH\r\n\r\n"), raw(b"HTTP/1.1 2")])
async def test_a_connection_that_breaks_off_is_lost(receiver, make_client, end):
    async def act(writer):
        await end(writer)
        writer.close()

    receiver.will(act)

    with pytest.raises(ConnectionLost):
        await make_client(tries=ONCE).of("acme").post(receiver.url())


async def test_more_headers_than_are_read_are_a_lost_connection(receiver, make_client):
    receiver.will(endless(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 1000 + b"\r\n"))

    with pytest.raises(ConnectionLost):
        await make_client(tries=ONCE).of("acme").post(receiver.url())


async def test_more_lines_of_headers_than_are_read_are_a_lost_connection(receiver, make_client):
    receiver.will(answer(headers=[("A", "")] * 8_000))

    with pytest.raises(ConnectionLost):
        await make_client(tries=ONCE).of("acme").post(receiver.url())


async def test_many_headers_within_the_bound_are_read(receiver, make_client):
    receiver.will(answer(headers=[("X-A", "a" * 90) for _ in range(900)]))

    said = await make_client().of("acme").post(receiver.url())

    assert said.status_code == 200


async def test_a_port_where_nobody_listens_is_a_failed_connection(make_client):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"

        with pytest.raises(ConnectionFailed):
            await make_client(tries=ONCE).of("acme").get(url)


async def test_a_name_that_nobody_knows_is_not_resolved(make_client):
    with pytest.raises(NameNotResolved, match=r"^NameNotResolved: nobody\.invalid$"):
        await make_client(tries=ONCE).of("acme").get("http://nobody.invalid/")


async def test_a_resolver_that_hangs_costs_the_time_of_a_try(make_client):
    async def resolve(_):
        await asyncio.Event().wait()

    with pytest.raises(NameNotResolved):
        await make_client(tries=QUICK, resolve=resolve).of("acme").get("http://hooks.example/")


async def test_an_upgrade_that_nobody_asked_for_is_a_lost_connection(receiver, make_client):
    receiver.will(raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))

    with pytest.raises(ConnectionLost):
        await make_client(tries=ONCE).of("acme").get(receiver.url())


async def test_a_cancelled_call_leaves_nothing_behind(receiver, make_client):
    receiver.will(hang)
    client = make_client().of("acme")
    calling = asyncio.create_task(client.get(receiver.url()))
    await receiver.next()

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert (await client.get(receiver.url())).status_code == 200
    assert receiver.received[1].connection == 2


async def test_a_body_that_must_be_whole_may_not_be_too_long(receiver, make_client):
    receiver.will(endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", b"a" * 65536))

    with pytest.raises(AnswerTooLarge):
        await make_client().of("acme").get(receiver.url())


async def test_a_whole_body_that_breaks_off_is_a_lost_connection(receiver, make_client):
    async def act(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        await writer.drain()
        writer.close()

    receiver.will(act, act)

    with pytest.raises(ConnectionLost):
        await make_client().of("acme").get(receiver.url())
    said = await make_client().of("acme").get(receiver.url(), capture=EXCERPT)
    assert (said.status_code, said.content) == (200, b"hello")
