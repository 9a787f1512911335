"""Between us and Postgres: passes on what is said, and may lose a commit or stand still."""

import asyncio
import contextlib
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

COMMIT = b"COMMIT"


class Passing:
    """Knows the way to the database."""

    def __init__(self, database):
        at = conninfo_to_dict(database.url)
        self._host, self._port = str(at.get("host") or "127.0.0.1"), int(at.get("port") or 5432)

    async def connect(self):
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    @contextlib.asynccontextmanager
    async def before(self, database):
        """The database behind this."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = psycopg.conninfo.make_conninfo(database.url, host="127.0.0.1", port=port)
        yield replace(database, url=url)
        server.close()


class Between(Passing):
    """Passes all on. Once it is to, it cuts a connection at the next commit that goes by."""

    def __init__(self, database):
        super().__init__(database)
        self._loses = None

    def lose(self, *, sent=True, heard=True):
        """Of the next commit: whether Postgres is sent it, and whether it has ended by the cut."""
        self._loses = (sent, sent and heard)

    async def serve(self, reader, writer):
        up_reader, up_writer = await self.connect()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            down = asyncio.create_task(self._down(up_reader, writer))
            while data := await reader.read(65536):
                if self._loses and COMMIT in data:
                    await self._cut(data, down, up_reader, up_writer)
                    break
                up_writer.write(data)
            down.cancel()
        up_writer.close()
        writer.transport.abort()

    async def _cut(self, data, down, up_reader, up_writer):
        sent, heard = self._loses
        self._loses = None
        down.cancel()
        await asyncio.wait({down})
        if sent:
            up_writer.write(data)
            await up_writer.drain()
        if heard:
            assert b"COMMIT" in await up_reader.read(65536)

    async def _down(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@pytest.fixture
async def between(database):
    """Something that can lose a commit, and the database behind it."""
    passing = Between(database)
    async with passing.before(database) as behind:
        yield passing, behind


class Frozen(Passing):
    """Passes on what either end says, while it goes."""

    def __init__(self, database):
        super().__init__(database)
        self.goes = asyncio.Event()
        self.goes.set()

    async def serve(self, reader, writer):
        up_reader, up_writer = await self.connect()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, up_writer), self._pass(up_reader, writer))

    async def _pass(self, reader, writer):
        while data := await reader.read(65536):
            await self.goes.wait()
            writer.write(data)
        writer.close()


@pytest.fixture
async def frozen(database):
    """The database behind something that can stand still."""
    passing = Frozen(database)
    async with passing.before(database) as behind:
        yield passing, behind
        passing.goes.set()
