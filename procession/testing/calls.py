"""Calls that leave an action and are answered by the test."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Unpack

import msgspec
from typing_extensions import override

from procession.outbound.answer import Answer
from procession.outbound.faults import Fault
from procession.outbound.http import Client, Options, Rules


@dataclass(frozen=True, slots=True)
class Sent:
    """A call as it left."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""

    def json(self) -> object:
        """The body's value; raises ValueError."""
        return msgspec.json.decode(self.content)


def answer(
    status: int = 200, json: object = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """What a receiver says."""
    content = b"" if json is None else msgspec.json.encode(json)
    given = {"Content-Type": "application/json", **(headers or {})}
    return Answer(status, [(k.encode(), v.encode()) for k, v in given.items()], content)


class Answers(Client):
    """Answers calls in this order, then with 200, and keeps what was sent. A fault is raised.

    Each is one call of an action, whatever the retries inside it would be.
    """

    def __init__(self, *answers: Answer | Fault) -> None:
        super().__init__(Rules(), ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._answers = list(answers)
        self.sent: list[Sent] = []

    @override
    async def request(
        self, tenant: str, method: str, url: str, **options: Unpack[Options]
    ) -> Answer:
        """Keep the call, and answer it."""
        headers, content = dict(options.get("headers", {})), options.get("content", b"")
        if each_try := options.get("each_try"):
            headers.update(each_try())
        if "json" in options:
            content = msgspec.json.encode(options["json"])
        self.sent.append(Sent(method, url, headers, content))
        said = self._answers.pop(0) if self._answers else answer()
        if isinstance(said, Fault):
            raise said
        return said
