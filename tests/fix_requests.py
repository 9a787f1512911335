"""Stored requests, and performing them as a worker does."""

from datetime import timedelta

import pytest
from fix_actions import an_attempt
from fix_api import RING
from fix_clock import Clock
from fix_ledger import CLIENT_ID, CLIENT_SECRET

from procession.actions.load import built_in, load
from procession.actions.perform import perform
from procession.actions.request import Stored, kept_in
from procession.engine.connector_body import parse_connector
from procession.engine.request_definition import parse_request
from procession.outbound.oauth import Tokens
from procession.outbound.retry import Tries
from procession.queue import connectors, requests
from procession.queue.audit import By
from procession.queue.connectors import Saving

ONCE = Tries(retries=0, each=timedelta(milliseconds=500))
QUICK = Tries(floor=timedelta(), ceiling=timedelta(milliseconds=1))


class Sender:
    """Keeps a connector and a request of the test's, and sends it."""

    def __init__(self, conn, pool, make_client):
        self._conn, self.make_client = conn, make_client
        self.clock = Clock()
        self.stored = Stored(kept_in(pool), RING, Tokens(self.clock))
        self.clients = {}

    async def connect(self, url, auth="None", slug="ledger", **changes):
        body = {"name": slug, "baseUrl": url, "auth": auth, **changes}
        sent = parse_connector(body, lambda _: True)
        await connectors.save(self._conn, Saving("default", slug, sent, RING), By())

    async def oauth(self, ledger, **settings):
        known = {"tokenUrl": f"{ledger.url}/token", "clientId": CLIENT_ID, **settings}
        secrets = {"clientSecret": CLIENT_SECRET}
        await self.connect(ledger.url, "OAuth2ClientCredentials", settings=known, secrets=secrets)

    async def keep(self, slug="book", **changes):
        body = {"name": slug, "connectorSlug": "ledger", "pathTemplate": "/books", **changes}
        await requests.save(self._conn, "default", slug, parse_request(body), By())

    async def send(self, slug="book", tries=ONCE, kept=None, **changes):
        client = self.clients.setdefault(tries, self.make_client(tries=tries))
        return await perform(
            load(built_in(requests=self.stored), []),
            an_attempt("Request", {"Request": slug}, **changes),
            client=client,
            limit=timedelta(seconds=20),
            kept=kept,
        )

    async def outcome(self, **changes):
        return (await self.send(**changes)).outcome


@pytest.fixture
def sender(conn, pool, make_client):
    return Sender(conn, pool, make_client)
