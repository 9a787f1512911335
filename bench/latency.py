"""From the commit of a change to the first byte at the receiver, on an idle worker.

usage: latency.py URL COUNT. Prints one JSON row. The worker is the real command in a process of its
own; the receiver and whoever saves the entries are here, and read one clock.
"""

import asyncio
import base64
import contextlib
import json
import os
import random
import sys
import time
from pathlib import Path

from meter import percentile
from setup import ACTOR, prepare

from procession.engine.access import Actor
from procession.engine.change import Key
from procession.engine.precondition import Precondition
from procession.engine.workflow import ActionDefinition
from procession.queue.entries import put
from procession.queue.pool import Database, make_pool
from procession.queue.start import Origin

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Receiver:
    """Answers 200 to every POST on a connection, and notes when its first byte came."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[float] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while first := await reader.read(1):
                at = time.monotonic()
                head = first + await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.came.put_nowait(at)
                writer.write(ANSWER)
        writer.close()


@contextlib.asynccontextmanager
async def working(url: str):
    """The worker as it ships, at concurrency 10."""
    environment = os.environ | {
        "DATABASE_URL": url,
        "SECRETS__KEYS": f"bench:{base64.b64encode(bytes(32)).decode()}",
        "OUTBOUND__ALLOWED_NETWORKS": "127.0.0.0/8",
        "WORKFLOWS__RUNNER_CONCURRENCY": "10",
        "HOST": "127.0.0.1",
        "PORT": "18472",
        "LOG__LEVEL": "error",
    }
    command = Path(sys.executable).parent / "procession"
    process = await asyncio.create_subprocess_exec(command, "worker", env=environment)
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def main(url: str, count: int) -> None:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    prepare(
        url,
        [ActionDefinition(type="Webhook", parameters={"Url": f"http://127.0.0.1:{port}/hook"})],
    )
    origin = Origin(actor=Actor(**json.loads(ACTOR)))
    waits: list[float] = []
    async with (
        server,
        make_pool(Database(url)) as pool,
        pool.connection() as conn,
        working(url),
        asyncio.timeout(120),
    ):
        for number in range(count + 1):
            body = {"data": {"Title": f"Number {number}"}}
            key = Key(tenant="default", content_type="Article", id=f"b{number}")
            await put(conn, key, body, Precondition(), origin)
            committed = time.monotonic()
            waits.append(await receiver.came.get() - committed)
            await asyncio.sleep(random.uniform(0.02, 0.06))  # the worker is idle again
    milliseconds = [1000 * one for one in waits[1:]]  # the first waits for the worker to start
    print(
        json.dumps(
            {
                "p50_ms": round(percentile(milliseconds, 0.5), 1),
                "p95_ms": round(percentile(milliseconds, 0.95), 1),
                "max_ms": round(max(milliseconds), 1),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
