"""Tokens by client credentials: asked for once, kept for a while, asked for again when refused.

They are in the memory of each process. Many calls that need the same token wait for one grant, and
get what came of it; of what the other side says of a failure only the standard's codes go on.
"""

import asyncio
import base64
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import cast
from urllib.parse import quote_plus, urlencode

from procession.outbound.answer import Answer, is_success
from procession.outbound.capture import Capture
from procession.outbound.faults import AddressRefused, Fault
from procession.outbound.http import TenantClient

DEADLINE = 30.0  # seconds for a grant with all its tries
ANSWER = Capture(65_536, 65_536, whole=True)
LONGEST_LIFE, UNTOLD_LIFE = 3_600.0, 60.0  # seconds that a token is kept at most, or when unsaid
EARLY = 30.0  # before its end a token is not used any more
OLD = 60.0  # a younger token that is refused is refused for another reason than its age
KEPT = 256
FINAL = frozenset(  # another attempt would be answered alike
    {"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}
)
STANDARD = FINAL | {"invalid_request", "invalid_grant"}


class GrantError(Exception):
    """No token is to be had; the text holds nothing of the other side's but a standard code."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(f"No token was granted: {reason}.")
        self.final = final


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Where a token is asked for, and on whose behalf."""

    url: str
    client_id: str
    client_secret: str
    in_body: bool = False  # where the client says who it is: there, or in a header
    scope: str | None = None
    audience: str | None = None

    def message(self) -> tuple[dict[str, str], bytes]:
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        form = {"grant_type": "client_credentials"}
        form |= {"scope": self.scope} if self.scope else {}
        form |= {"audience": self.audience} if self.audience else {}
        if self.in_body:
            form |= {"client_id": self.client_id, "client_secret": self.client_secret}
        else:
            pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers, urlencode(form).encode()


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the seconds that it may be kept."""

    text: str
    life: float
    granted_at: float = 0.0


async def ask(client: TenantClient, grant: Grant) -> Token:
    """One grant; raises GrantError, or AddressRefused."""
    headers, content = grant.message()
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await client.post(grant.url, headers=headers, content=content, capture=ANSWER)
    except AddressRefused:
        raise
    except Fault as fault:
        raise GrantError(fault.kind) from None
    except TimeoutError:
        raise GrantError("Timeout") from None
    return _read(answer)


def _read(answer: Answer) -> Token:
    try:  # a number may have more digits than an int is read of; those that are none stay words
        value: object = json.loads(answer.content, parse_int=float, parse_constant=str)
    except (ValueError, RecursionError):
        value = None
    said = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    if not is_success(answer.status_code):
        code = said.get("error")
        known = isinstance(code, str) and code in STANDARD
        told = f" {code}" if known else ""
        raise GrantError(f"HTTP {answer.status_code}{told}", final=known and code in FINAL)
    text, kind = said.get("access_token"), said.get("token_type", "Bearer")
    if not isinstance(text, str) or not _is_token(text):
        raise GrantError("the answer holds none")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise GrantError("it is of a type that is not Bearer")
    return Token(text, _life(said.get("expires_in")))


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _life(said: object) -> float:
    if isinstance(said, str) and said.isascii() and said.isdigit():
        said = float(said)
    if not isinstance(said, float):
        return UNTOLD_LIFE
    life = min(max(said, 0.0), LONGEST_LIFE)
    return life - min(EARLY, life / 2)


@dataclass(slots=True)
class _Flight:
    """A grant under way, and how many wait for it."""

    task: asyncio.Task[Token]
    waiters: int = 0


class Tokens:
    """The tokens of a process; those used longest ago are forgotten when there are too many."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept = OrderedDict[Hashable, Token]()
        self._flights = dict[Hashable, _Flight]()

    def kept(self, key: Hashable) -> Token | None:
        """The token that is kept under this key, while it may be used."""
        token = self._kept.get(key)
        if token is None:
            return None
        if self._clock() >= token.granted_at + token.life:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return token

    def is_old(self, token: Token) -> bool:
        """Whether its age may be why it is refused."""
        return self._clock() - token.granted_at >= OLD

    def drop(self, key: Hashable, token: Token) -> None:
        """Forget it, unless somebody has replaced it already."""
        if self._kept.get(key) is token:
            del self._kept[key]

    async def granted(self, key: Hashable, grant: Callable[[], Awaitable[Token]]) -> Token:
        """A new token: by the grant that is under way, or else by this one."""
        flight = self._flights.get(key)
        if flight is None:
            task = asyncio.create_task(self._keep(key, grant))
            flight = self._flights[key] = _Flight(task)
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if flight.waiters == 0:
                flight.task.cancel()  # nobody waits for it any more, if it still goes on
                if self._flights.get(key) is flight:
                    del self._flights[key]

    async def _keep(self, key: Hashable, grant: Callable[[], Awaitable[Token]]) -> Token:
        asked_at = self._clock()
        came = await grant()
        token = Token(came.text, came.life, asked_at)
        if token.life > 0:
            self._kept[key] = token
            self._kept.move_to_end(key)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return token
