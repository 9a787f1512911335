"""Being let in by a connector: the headers that show it, and the secrets that they were made of."""

import base64
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial

from procession.engine.connector import Auth, ClientAuth, Connector, origin
from procession.outbound.answer import Answer
from procession.outbound.faults import Fault
from procession.outbound.http import TenantClient
from procession.outbound.oauth import Grant, Token, Tokens, ask

REFUSED = 401

Send = Callable[[Mapping[str, str]], Awaitable[Answer]]


class MissingSecretError(Exception):
    """The connector has no secret of the kind that its auth needs."""


class OutsideError(Exception):
    """The path would lead away from where the connector leads."""


@dataclass(frozen=True, slots=True)
class Link:
    """A connector with its secrets in plain, and the key that its tokens are kept under."""

    key: Hashable
    connector: Connector
    secrets: Mapping[str, str]

    def url(self, path: str) -> str:
        """The address of a path behind the connector's own; raises OutsideError."""
        base = self.connector.base_url
        url = base.rstrip("/") + path
        if not path.startswith("/") or origin(url) != origin(base):
            raise OutsideError
        return url


@dataclass(slots=True)
class Access:
    """The way in, for one call."""

    link: Link
    client: TenantClient
    tokens: Tokens
    secrets: list[str] = field(default_factory=list[str])  # those used, and what they became
    _kept: Token | None = None  # a token that is not of this call's own asking

    def __post_init__(self) -> None:
        self.client = self.client.owned_by(self.link.key)  # no other credential shares its way

    async def send(self, once: Send) -> Answer:
        """Send with what lets in; once more where a token may have grown too old."""
        try:
            answer = await once(await self._headers())
        except Fault as fault:
            if not self._is_outdated(fault.status):  # its body may be what was at fault
                raise
        else:
            if not self._is_outdated(answer.status_code):
                return answer
        return await once(await self._headers())

    def _is_outdated(self, status: int | None) -> bool:
        """Whether the token is refused for its age; it is dropped then."""
        kept = self._kept
        if status != REFUSED or kept is None or not self.tokens.is_old(kept):
            return False
        self.tokens.drop(self.link.key, kept)
        return True

    async def _headers(self) -> dict[str, str]:
        connector, settings = self.link.connector, self.link.connector.settings
        match connector.auth:
            case Auth.NONE:
                return {}
            case Auth.BASIC:
                password = self._used(self.link.secrets.get("password", ""))
                pair = base64.b64encode(f"{settings['username']}:{password}".encode()).decode()
                return {"Authorization": f"Basic {self._used(pair)}"}
            case Auth.BEARER:
                return {"Authorization": f"Bearer {self._secret('token')}"}
            case Auth.API_KEY:
                return {settings["headerName"]: self._secret("apiKey")}
            case Auth.OAUTH2:
                return {"Authorization": f"Bearer {self._used(await self._token())}"}

    async def _token(self) -> str:
        token = self._kept = self.tokens.kept(self.link.key)
        if token is None:
            settings = self.link.connector.settings
            grant = Grant(
                url=settings["tokenUrl"],
                client_id=settings["clientId"],
                client_secret=self._secret("clientSecret"),
                in_body=settings.get("clientAuth") == ClientAuth.BODY,
                scope=settings.get("scope"),
                audience=settings.get("audience"),
            )
            token = await self.tokens.granted(self.link.key, partial(ask, self.client, grant))
        return token.text

    def _secret(self, name: str) -> str:
        if not self.link.secrets.get(name):
            raise MissingSecretError(f"Enter the {name} of the connector: it has none.")
        return self._used(self.link.secrets[name])

    def _used(self, secret: str) -> str:
        if secret and secret not in self.secrets:
            self.secrets.append(secret)
        return secret
