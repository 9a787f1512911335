"""Persons who retry, cancel, abandon and force-end runs, and switch workflows off and on, while
workers are at it; and what they did of it, for whoever checks afterwards."""

import asyncio
import contextlib
from collections import Counter
from uuid import UUID

from fix_api import add_key, client_of

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.queue.pool import make_pool

VERBS = ["cancel", "abandon", "abandon", "force-end", *["retry"] * 6, "switch"]
AT_ONCE = 4
NEWEST = 60  # runs, of which one is picked
TAKEN = {200, 404, 409, 503}  # the last where its session was cut


class Persons:
    """They act on the newest runs of a chaos, several at once."""

    def __init__(self, client, chaos):
        self.client, self.chaos, self.random = client, chaos, chaos.random
        self.answers, self.retried, self.odd = Counter(), set(), []

    async def go(self):
        while True:
            await asyncio.gather(*(self._act() for _ in range(AT_ONCE)))
            await self.chaos.log.more(1, seconds=0.05)

    async def _act(self):
        verb = self.random.choice(VERBS)
        if not self.chaos.ids:
            return  # nothing is made yet
        if verb == "switch":
            await self._switch(self.random.choice(self.chaos.made))
        else:
            run_id, ordinal = self.random.choice(self.chaos.ids[-NEWEST:]), self.random.randrange(3)
            await self._command(run_id, verb, ordinal)
            await self._call("GET", f"/workflow-runs/{run_id}")
            await self._call("GET", "/workflow-runs?pageSize=20")

    async def _switch(self, workflow):
        enabled = {"enabled": self.random.random() < 0.8}
        await self._call("PUT", f"/workflows/{workflow.id}/enabled", json=enabled)

    async def _command(self, run_id, verb, ordinal):
        what = f"actions/{ordinal}/retry" if verb == "retry" else verb
        answer = await self._call("POST", f"/workflow-runs/{run_id}/{what}")
        self.answers[verb, answer.json().get("code", "done")] += 1
        if verb == "retry" and answer.status_code == 200:
            attempts = answer.json()["actions"][ordinal]["attempts"]
            self.retried.add((UUID(str(run_id)), ordinal, attempts))

    async def _call(self, method, path, **more):
        answer = await self.client.request(method, f"/api{path}", **more)
        if answer.status_code not in TAKEN:
            self.odd.append(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


@contextlib.asynccontextmanager
async def persons(chaos, database):
    """Let them act for as long as the block lasts."""
    async with make_pool(database) as pool:
        catalogue = load(built_in(), []).catalogue()
        app = create_app(Services(pool=pool, control_tokens=(), catalogue=catalogue))
        headers = {"Authorization": f"Bearer {await add_key(chaos.conn)}"}
        async with client_of(app, headers) as client:
            made = Persons(client, chaos)
            acting = asyncio.create_task(made.go())
            try:
                yield made
            finally:
                acting.cancel()
                await asyncio.wait({acting})
