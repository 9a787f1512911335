"""Calls every address that it is given by webhook, over and over, and says what came of it.

A process of its own, so that its memory is what calling costs. It is told the addresses on standard
input, and writes outcomes and what it used of memory, sockets and tasks on standard output.
"""

import asyncio
import gc
import json
import ssl
import sys
import time
from datetime import timedelta
from pathlib import Path

from fix_actions import an_attempt

from procession.actions.load import built_in, load
from procession.actions.perform import perform
from procession.outbound import capture
from procession.outbound.breaker import BreakerRule
from procession.outbound.faults import NameNotResolved
from procession.outbound.guard import networks
from procession.outbound.http import Client, Rules
from procession.outbound.retry import Tries

ROUNDS = 2
AT_ONCE = 8  # more, and the servers have not the time to be as bad as they can
REGISTRY = load(built_in(allow_insecure_signed_urls=True), [])
capture.SECONDS = 1.0


class Good(asyncio.Protocol):
    """Answers every request, as soon as this process lets it."""

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def memory(name):
    """Kilobytes: VmRSS now, VmHWM at most. (What getrusage says begins with the parent's.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0])


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def visit(client, url):
    attempt = an_attempt("Webhook", {"Url": url})
    performed = await perform(REGISTRY, attempt, client=client, limit=timedelta(seconds=30))
    outcome, (row,) = performed.outcome, performed.deliveries
    return {
        "outcome": type(outcome).__name__,
        "error": outcome.error,
        "retryable": getattr(outcome, "retryable", None),
        "status": row.response_status,
        "kept": len(row.response_body or ""),
        "url": row.url,
        "sent": row.requests_sent,
    }


async def rounds(client, told):
    """What came of each address, the same in every round, with good calls all the while."""
    seen, good, slowest = {}, 0, 0.0
    room = asyncio.Semaphore(AT_ONCE)

    async def in_turn(url):
        async with room:
            return await visit(client, url)

    for _ in range(ROUNDS):
        names, urls = zip(*told["urls"].items(), strict=True)
        visiting = asyncio.gather(*(in_turn(url) for url in urls))
        while not visiting.done():
            began = time.monotonic()
            came = await visit(client, told["good"])
            assert came["outcome"] == "Succeeded", came
            good, slowest = good + 1, max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.02)
        for name, came in zip(names, await visiting, strict=True):
            assert seen.setdefault(name, came) == came, f"{name} differs: {came}"
    return seen, good, slowest


async def main():
    told = json.loads(sys.stdin.read())
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Good, "127.0.0.1", 0)
    told["good"] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    trust = ssl.create_default_context(cadata=told["trust"])

    async def resolve(host):
        if host not in told["names"]:
            raise NameNotResolved(host)
        return told["names"][host]

    rules = Rules(
        networks("127.0.0.0/8,::1/128"),
        Tries(retries=0, each=timedelta(seconds=4)),
        BreakerRule(failures=0),
    )
    async with Client(rules, resolve=resolve, ssl_context=trust) as client:
        for _ in range(50):
            await visit(client, told["good"])
        gc.collect()
        before, files = memory("VmRSS"), open_files()
        seen, good, slowest = await rounds(client, told)
        await asyncio.sleep(0.1)
        grown = memory("VmHWM") - before
        tasks = len(asyncio.all_tasks()) - 1
    await asyncio.sleep(0.1)
    left = open_files() - files  # when those that are kept for the next call are closed
    server.close()
    said = {"seen": seen, "good": good, "slowest": slowest, "grown_kb": grown}
    sys.stdout.write(json.dumps(said | {"files": left, "tasks": tasks}))


asyncio.run(main())
