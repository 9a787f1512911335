"""Servers and names that mean harm: each has a stated outcome, and none costs memory or health."""

import asyncio
import gzip
import json
import ssl
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from fix_receiver import Receiver, answer, close, drip, endless, hang, raw, redirect, reset

VISITOR = Path(__file__).with_name("zoo_visitor.py")
LARGE = b"a" * 65_536
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MEMBER = gzip.compress(bytes(1_000_000))


def bomb():
    """A gigabyte of nothing, in one stream: a megabyte of it that is flushed, a thousand times."""
    packer = zlib.compressobj(wbits=31)
    head = packer.compress(b"\0") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * 1_000


def packed(body, encoding="gzip"):
    return answer(200, body, [("Content-Encoding", encoding)])


def then(act, end):
    async def both(writer):
        await act(writer)
        await asyncio.sleep(0.05)
        await end(writer)

    return both


async def sixty_four_megabytes(writer):
    writer.write(OK + b"Content-Length: 67108864\r\n\r\n")
    for _ in range(1024):
        writer.write(LARGE)
        await writer.drain()


def sent(status=200, kept=0):  # characters of the body, or None where that is chance
    return {"outcome": "Succeeded", "error": None, "status": status, "kept": kept}


def retried(error, status=None, kept=0):
    return {
        "outcome": "Failed",
        "error": error,
        "retryable": True,
        "status": status,
        "kept": kept,
    }


def refused(error, status=None, kept=0):
    return retried(error, status, kept) | {"retryable": False}


TIMEOUT, LOST = retried("Timeout"), retried("ConnectionLost")
# What a server does once it has read the request, and what becomes of the webhook.
SERVERS = {
    "never answers": (hang, TIMEOUT),
    "closes at once": (close, LOST),
    "resets at once": (reset, LOST),
    "slow headers": (drip(OK + b"X-A: ", b"a", 0.01), TIMEOUT),
    "slow status line": (drip(b"", b"H", 0.3), TIMEOUT),
    "endless headers": (endless(OK, b"X-A: " + b"a" * 1000 + b"\r\n"), LOST),
    "one endless header": (endless(OK + b"X-A: ", LARGE), LOST),
    "endless status line": (endless(b"HTTP/1.1 200 ", LARGE), LOST),
    "interim flood": (endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), LOST),
    "interim drip": (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), TIMEOUT),
    "upgrade": (raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), LOST),
    "another protocol": (then(raw(b"SSH-2.0-OpenSSH_9.9\r\n"), close), LOST),
    "HTTP/2": (raw(b"\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x64\0\4\0\x10\0\0\0\6\0\1\0\0\r\n\r\n"), LOST),
    "no status": (raw(b"HTTP/1.1 OK\r\n\r\n"), LOST),
    "zero byte in a header": (raw(OK + b"X-A: a\0b\r\nContent-Length: 0\r\n\r\n"), LOST),
    "two lengths": (raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), LOST),
    "negative length": (raw(OK + b"Content-Length: -1\r\n\r\n"), LOST),
    "64 MB": (sixty_four_megabytes, sent(kept=4096)),
    "endless body": (endless(OK + b"\r\n", LARGE), sent(kept=4096)),
    "dripping body": (drip(OK + b"Content-Length: 99\r\n\r\n", b"", 0.1), sent()),
    "body too short": (then(raw(OK + b"Content-Length: 10\r\n\r\nhello"), close), sent(kept=5)),
    "body too long": (raw(OK + b"Content-Length: 5\r\n\r\nhello, HTTP/1.1 200 OK"), sent(kept=5)),
    "reset in mid-body": (then(raw(OK + b"Content-Length: 10\r\n\r\nhello"), reset), sent(kept=5)),
    "bad chunk": (raw(CHUNKED + b"5\r\nhello\r\nzz\r\n"), sent(kept=5)),
    "endless chunk head": (endless(CHUNKED + b"5;", LARGE), sent()),
    "endless small chunks": (endless(CHUNKED, b"1\r\na\r\n" * 10_000), sent(kept=4096)),
    "endless trailers": (endless(CHUNKED + b"1\r\na\r\n0\r\n", b"X-A: b\r\n" * 8000), sent(kept=1)),
    "bomb": (packed(bomb()), sent(kept=4_096)),  # the zero bytes are spelt out
    "bomb of members": (packed(MEMBER * 1000), sent(kept=4_096)),
    "bomb in deflate": (packed(zlib.compress(bytes(10_000_000)), "deflate"), sent(kept=4_096)),
    "bomb in layers": (packed(gzip.compress(bomb()), "gzip, gzip"), sent(kept=None)),
    "no gzip": (packed(b"plain", "gzip"), sent(kept=5)),
    "broken gzip": (packed(MEMBER[:40] + b"\xff" * 40), sent(kept=4_096)),
    "redirect inside": (redirect("http://127.0.0.1:1/", 307), refused("HTTP 307", 307)),
    "redirect to a file": (redirect("file:///etc/passwd"), refused("HTTP 302", 302)),
    "an age to wait": (
        answer(503, headers=[("Retry-After", "9999999999")]),
        retried("HTTP 503", 503),
    ),
    "an odd status": (
        raw(b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n"),
        retried("HTTP 799", 799),
    ),
}
# Addresses that are never called, or whose name leads where it must not; {port} is a live server's.
INSIDE = {
    "decimal": "http://2130706433:{port}/",
    "octal": "http://0177.0.0.1:{port}/",
    "hex": "http://0x7f000001:{port}/",
    "short": "http://127.1:{port}/",
    "nat64": "http://[64:ff9b::7f00:1]:{port}/",
    "mapped metadata": "http://[::ffff:169.254.169.254]:{port}/",
    "6to4": "http://[2002:7f00:1::]:{port}/",
    "zone": "http://[::1%25lo]:{port}/",
    "wide digits": "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "user info": "http://example.com@127.0.0.1:{port}/",
    "name of an inner address": "http://inner.example:{port}/",
    "name that is half inside": "http://mixed.example:{port}/",
    "name of a mapped address": "http://mapped.example:{port}/",
    "name of NAT64": "http://nat64.example:{port}/",
}
NAMES = {
    "good.example": ["127.0.0.1"],
    "xn--bcher-kva.example": ["127.0.0.1"],
    "inner.example": ["169.254.169.254"],
    "mixed.example": ["127.0.0.1", "10.0.0.1"],
    "mapped.example": ["::ffff:10.0.0.1"],
    "nat64.example": ["64:ff9b::a9fe:a9fe"],
    "empty.example": [],
}


async def keeps_silent(_writer):
    """Accepts a connection, and no more."""
    await asyncio.Event().wait()


async def speaks_plainly(writer):
    writer.write(OK + b"\r\n")


class Zoo:
    def __init__(self):
        self.authority, self.urls, self._open = trustme.CA(), {}, []
        self._tasks = set()

    async def receiver(self, act, context=None):
        """One that does the same to every request."""
        one = await Receiver().start(context)
        one.script = Always(act)
        self._open.append(one.stop)
        return one

    async def plain(self, serve):
        async def noted(_reader, writer):
            self._tasks.add(asyncio.current_task())
            with suppress(asyncio.CancelledError):
                await serve(writer)
            writer.close()

        server = await asyncio.start_server(noted, "127.0.0.1", 0)
        self._open.append(server.close)
        return server.sockets[0].getsockname()[1]

    async def open(self):
        for name, (act, _) in SERVERS.items():
            self.urls[name] = (await self.receiver(act)).url()
        self.inside = await self.receiver(answer(200, b"ok"))
        for name, url in INSIDE.items():
            self.urls[name] = url.format(port=self.inside.port)
        self.urls["punycode"] = self.inside.url(host="Bücher.example")
        self.urls["no address"] = self.inside.url(host="empty.example")
        self.urls["no name"] = self.inside.url(host="nobody.example")
        self.urls["nobody listens"] = "http://127.0.0.1:1/"
        for name, issuer in (("wrong name", self.authority), ("unknown issuer", trustme.CA())):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            host = "other.example" if issuer is self.authority else "good.example"
            issuer.issue_cert(host).configure_cert(context)
            served = await self.receiver(answer(), context)
            self.urls[name] = served.url(host="good.example")
        self.urls["no TLS"] = f"https://good.example:{await self.plain(speaks_plainly)}/"
        self.urls["silent TLS"] = f"https://good.example:{await self.plain(keeps_silent)}/"

    async def close(self):
        for each in self._open:
            if asyncio.iscoroutine(closing := each()):
                await closing
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Always:
    """A script that never ends."""

    def __init__(self, act):
        self._act = act

    def popleft(self):
        return self._act


async def visited():
    zoo = Zoo()
    await zoo.open()
    told = {
        "urls": zoo.urls,
        "names": NAMES,
        "trust": zoo.authority.cert_pem.bytes().decode(),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(VISITOR),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    async with asyncio.timeout(90):
        said, _ = await process.communicate(json.dumps(told).encode())
    await zoo.close()
    assert process.returncode == 0
    return json.loads(said) | {"inside": [one.headers["host"] for one in zoo.inside.received]}


@pytest.fixture(scope="module")
def visit():
    return asyncio.run(visited())


FAILED = retried("ConnectionFailed")
OTHERS = {
    **{name: refused("AddressRefused") for name in INSIDE},
    "punycode": sent(kept=2),
    "no address": retried("NameNotResolved"),
    "no name": retried("NameNotResolved"),
    "nobody listens": FAILED,
    "wrong name": retried("TlsFailed"),
    "unknown issuer": retried("TlsFailed"),
    "no TLS": retried("TlsFailed"),
    "silent TLS": FAILED,
}
STATED = {name: stated for name, (_, stated) in SERVERS.items()} | OTHERS


@pytest.mark.parametrize("name", STATED)
def test_each_of_them_has_its_outcome(visit, name):
    came = visit["seen"][name]
    came["error"] = came["error"] and came["error"].split(":")[0]

    stated = {
        key: value for key, value in STATED[name].items() if key != "kept" or value is not None
    }
    assert {key: came[key] for key in stated} == stated


def test_nothing_inside_is_reached(visit):
    assert {host.split(":")[0] for host in visit["inside"]} == {"xn--bcher-kva.example"}


def test_memory_stays_flat_and_nothing_is_left_open(visit):
    assert visit["grown_kb"] < 20 * 1024
    assert visit["tasks"] == 0
    assert visit["files"] <= 0


def test_the_others_are_served_all_the_while(visit):
    assert visit["good"] > 20
    assert visit["slowest"] < 2
