"""Procession on a port of this machine, for what calls it from outside."""

import asyncio

import pytest
from fix_api import add_key, declare

from procession.app.cli import main
from procession.app.server import Address, listening
from procession.client import Client

FLOW = {
    "name": "Announce",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [{"type": "Webhook", "parameters": {"Url": "https://example.org"}}],
}


class Remote:
    """Where it is, and a key to it."""

    def __init__(self, url, key, environment, capsys):
        self.url, self.key = url, key
        self._environment, self._capsys = environment, capsys

    def client(self, **more):
        return Client(self.url, more.pop("key", self.key), **more)

    async def do(self, call):
        """What this gives of a client, away from the loop that answers."""

        def done():
            with self.client() as client:
                return call(client)

        return await asyncio.to_thread(done)

    async def type(self, *line, **variables):
        """What the command shows: standard output, standard error, and its status."""
        for name, value in (
            {"PROCESSION_URL": self.url, "PROCESSION_KEY": self.key} | variables
        ).items():
            self._environment.setenv(name, value)
        self._capsys.readouterr()
        status = 0
        try:
            await asyncio.to_thread(main, [str(one) for one in line])
        except SystemExit as ended:
            status = ended.code or 0
        said = self._capsys.readouterr()
        return said.out, said.err, status


@pytest.fixture
async def remote(app, conn, admin, monkeypatch, capsys):
    """Procession with the content type Article, on a port; its key is an Admin's."""
    await declare(admin)
    key = await add_key(conn)
    async with listening(app, Address("127.0.0.1", 0), 1) as where:
        yield Remote(f"http://127.0.0.1:{where.port}", key, monkeypatch, capsys)
