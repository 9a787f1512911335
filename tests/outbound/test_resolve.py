"""Looking up names while those who answer for some of them are dead."""

import asyncio
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from procession.outbound.breaker import BreakerRule
from procession.outbound.faults import NameNotLookedUp, NameNotResolved
from procession.outbound.resolve import ROOM, THREADS, Resolver
from procession.outbound.retry import Tries


class Names:
    """Those that end in .dead have no answer until the gate is opened."""

    def __init__(self, look_up):
        self.gate, self.asked, self._look_up = threading.Event(), [], look_up
        self._news = threading.Semaphore(0)

    def __call__(self, host, *more, **options):
        self.asked.append(host)
        self._news.release()
        if host.endswith(".dead"):
            self.gate.wait(30)
            raise socket.gaierror
        return self._look_up(host, *more, **options)

    async def are_asked(self, many):
        for _ in range(many):
            assert await asyncio.to_thread(self._news.acquire, timeout=10)


@pytest.fixture
def names(monkeypatch):
    one = Names(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", one)
    yield one
    one.gate.set()


@pytest.fixture
def resolver(names):
    one = Resolver()
    yield one
    names.gate.set()
    one.close()


async def test_a_name_is_looked_up_once_for_all_who_ask_meanwhile(resolver, names):
    asking = [asyncio.create_task(resolver.of(one)("a.dead")) for one in ("acme", "other") * 3]
    await names.are_asked(1)
    asking.pop(0).cancel()

    names.gate.set()
    said = await asyncio.gather(*asking, return_exceptions=True)

    assert [type(one) for one in said] == [NameNotResolved] * 5
    assert names.asked == ["a.dead"]
    with pytest.raises(NameNotResolved):
        await resolver("a.dead")
    assert names.asked == ["a.dead"] * 2


async def test_one_who_asks_for_many_dead_names_starves_nobody_else(resolver, names):
    evil = resolver.of("evil")
    asking = [asyncio.create_task(evil(f"{one}.dead")) for one in range(2 * THREADS)]
    await names.are_asked(ROOM)
    for one in asking:
        one.cancel()
    await asyncio.wait(asking)

    healthy = asyncio.create_task(evil("127.0.0.1"))
    assert "127.0.0.1" in await resolver.of("acme")("localhost")
    assert not (await asyncio.wait({healthy}, timeout=1.1))[0]  # longer than a look-up takes
    assert len(names.asked) == ROOM + 1

    names.gate.set()
    assert await healthy == ["127.0.0.1"]


async def test_more_names_than_there_is_room_for_wait_for_each_other(resolver):
    hosts = [f"127.0.0.{one}" for one in range(1, 4 * ROOM)]

    said = await asyncio.gather(*(resolver.of("acme")(one) for one in hosts))

    assert said == [[one] for one in hosts]


async def test_a_tenant_whose_names_are_dead_leaves_the_calls_of_others_alone(
    receiver, make_client, names
):
    quick = Tries(retries=1, each=timedelta(milliseconds=50))

    async def sleep(_):
        pass

    client = make_client(tries=quick, sleep=sleep)

    async def dead(one):
        with suppress(NameNotResolved):
            await client.of("evil").get(f"http://{one}.dead/")

    await asyncio.gather(*(dead(one) for one in range(THREADS)))
    for _ in range(2 * BreakerRule().failures):
        with pytest.raises(NameNotLookedUp) as fault:
            await client.of("evil").get(receiver.url(host="localhost"))
        assert fault.value.tries == 1 + quick.retries

    assert (await client.of("acme").get(receiver.url(host="localhost"))).status_code == 200
    assert len(names.asked) == ROOM + 1

    names.gate.set()
    assert (await client.of("evil").get(receiver.url(host="localhost"))).status_code == 200


ENDING = """
import asyncio, socket, time
from procession.outbound.resolve import Resolver

async def main():
    resolver = Resolver()
    await asyncio.wait({asyncio.create_task(resolver("a.dead"))}, timeout=0.1)
    resolver.close()

socket.getaddrinfo = lambda *_, **__: time.sleep(60)
asyncio.run(main())
"""


async def test_a_name_that_has_no_answer_holds_up_no_exit():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ENDING)
    try:
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
