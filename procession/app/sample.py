"""A workspace to look at: made once, on an empty database, through the API like anybody's.

A content type, and a workflow that tells a receiver when an entry of it is published. The receiver
is started here too, on every start, where the workflow looks for it.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procession.app import keep
from procession.app.receiver import Message
from procession.app.refusal import RefusalError
from procession.app.say import say
from procession.outbound.http import Client

STATE = "sample.json"
ENTRY = "/api/entries/Article/hello"
PATIENCE = 20.0  # seconds for the sample's run
FINISHED = {"Succeeded", "Failed", "PartiallyFailed", "Cancelled"}


@dataclass(frozen=True, slots=True)
class Sample:
    """Where the receiver is, and what it shares with the workflow."""

    port: int
    secret: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/articles"


def remembered(folder: Path) -> Sample | None:
    """The sample of an earlier start."""
    file = folder / STATE
    return Sample(**json.loads(file.read_text())) if file.exists() else None


def remember(folder: Path, sample: Sample) -> None:
    keep.keep(folder, STATE, json.dumps({"port": sample.port, "secret": sample.secret}))


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


class Api:
    """The API as its callers see it."""

    def __init__(self, client: Client, address: str, key: str) -> None:
        self._client, self.address, self.key = client, address, key

    async def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401
        """What the API answers; raises when it refuses."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        answer = await self._client.request(
            "default",
            method,
            f"{self.address}{path}",
            headers=headers,
            content=json.dumps(body).encode() if body is not None else b"",
        )
        if answer.status_code >= 400:  # noqa: PLR2004
            raise RefusalError(f"The sample's {method} {path} was answered: {answer.text}")
        return answer.json()


async def is_wanted(api: Api) -> bool:
    """Whether nothing is there yet that somebody could have made."""
    types = await api.call("GET", "/api/content-types")
    flows = await api.call("GET", "/api/workflows")
    return not types["items"] and not flows["items"]


async def make(api: Api, sample: Sample) -> None:
    """Declare articles, and what follows when one is published."""
    fields = {"Title": {"type": "text"}, "Author": {"type": "text", "sensitivity": "Sensitive"}}
    await api.call("PUT", "/api/content-types/Article", {"fields": fields})
    webhook = {
        "type": "Webhook",
        "parameters": {"Url": sample.url, "Secret": sample.secret},
        "onFailure": "Halt",
    }
    await api.call(
        "POST",
        "/api/workflows",
        {
            "name": "Announce article",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Published"],
            "actions": [webhook],
        },
    )


async def fire(api: Api, got: "asyncio.Queue[Message]") -> None:
    """Publish an article, and tell what came of it."""
    article = {"status": "Published", "data": {"Title": "Hello", "Author": "Ann"}}
    saved = await api.call("PUT", ENTRY, article)
    say(f"\nSaved the entry Article hello, which fired {', '.join(saved['events'])}.")
    try:
        async with asyncio.timeout(PATIENCE):
            run = await _finished(api, saved["runIds"][0])
    except TimeoutError:
        say(f"Its run {saved['runIds'][0]} has not ended in {PATIENCE:g} s.")
        return
    say(f"Its run {run['id']} {run['status']}:")
    for action in run["actions"]:
        say(f"  action {action['ordinal']} {action['type']}: {action['status']}")
        for attempt in action["history"]:
            answered = (
                f", answered {attempt['responseStatus']}" if attempt["responseStatus"] else ""
            )
            took = f", {attempt['durationMs']} ms" if attempt["durationMs"] is not None else ""
            error = f", {attempt['error']}" if attempt["error"] else ""
            say(f"    attempt {attempt['attempt']}: {attempt['outcome']}{answered}{took}{error}")
    while not got.empty():
        say(f"The receiver got {got.get_nowait()}")


async def _finished(api: Api, run_id: str) -> Any:  # noqa: ANN401
    while True:
        run = await api.call("GET", f"/api/workflow-runs/{run_id}")
        if run["status"] in FINISHED:
            return run
        await asyncio.sleep(0.05)
