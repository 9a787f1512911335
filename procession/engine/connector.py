"""Another system that requests are sent to: where it is, how one gets in, what is secret.

Secrets go in and never come out. One that is stored stays only while it would go to the same place
in the same way: with another auth, or another origin, all of them must be sent again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from procession.engine.errors import Fault, ValidationFailedError

SEND_AGAIN = "must be sent again, or blank to clear it, since it would go to another place"
LONGEST_TEXT, LONGEST_SECRET = 2_000, 16_384
OFF = "off"  # of the idempotency header: none is sent
IDEMPOTENCY_KEY = "Idempotency-Key"

# One spelling of an address: what two readers of addresses could read in two ways is refused.
_ADDRESS = re.compile(
    r"(https?)://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?(/[!-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_SLASH = r"[/\\]|%2f|%5c"  # some servers unpack them before they follow the path
_DOTS = re.compile(rf"(?:^|{_SLASH})(?:\.|%2e){{1,2}}(?:{_SLASH}|#|$)", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_SENDABLE = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
_HIGHEST_PORT = 65535
# who is called, how, and where the message ends, is nobody's to say in a header of his own
RESERVED_HEADERS = frozenset(
    {
        *("host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade"),
        *("te", "trailer", "expect", "keep-alive", "proxy-authorization", "proxy-connection"),
        *("accept-encoding", "cookie"),
    }
)


class Auth(StrEnum):
    """How a call shows that it may."""

    NONE = "None"
    BASIC = "Basic"
    BEARER = "BearerToken"
    API_KEY = "ApiKeyHeader"
    OAUTH2 = "OAuth2ClientCredentials"


class ClientAuth(StrEnum):
    """How a grant says whom it is for."""

    BASIC = "Basic"
    BODY = "Body"


SETTINGS: Mapping[Auth, tuple[str, ...]] = {
    Auth.NONE: (),
    Auth.BASIC: ("username",),
    Auth.BEARER: (),
    Auth.API_KEY: ("headerName",),
    Auth.OAUTH2: ("tokenUrl", "clientId", "scope", "audience", "clientAuth"),
}
OPTIONAL = frozenset({"scope", "audience", "clientAuth"})
SECRETS: Mapping[Auth, tuple[str, ...]] = {
    Auth.NONE: (),
    Auth.BASIC: ("password",),
    Auth.BEARER: ("token",),
    Auth.API_KEY: ("apiKey",),
    Auth.OAUTH2: ("clientSecret",),
}


class Connector(Struct, frozen=True, kw_only=True):
    """All of a connector but its secrets."""

    name: str
    base_url: str
    auth: Auth
    settings: dict[str, str] = {}  # by their names on the wire
    enabled: bool = True
    probe_path: str = "/"

    @property
    def idempotency_header(self) -> str | None:
        """The header that carries an action's key; None when none does."""
        header = self.settings.get("idempotencyHeader", IDEMPOTENCY_KEY)
        return None if header.lower() == OFF else header

    @property
    def destination(self) -> tuple[object, ...]:
        """What a stored secret belongs to: how it is shown, and whom to."""
        token_url = self.settings.get("tokenUrl")
        return (self.auth, origin(self.base_url), token_url and origin(token_url))


Origin = tuple[str, str, int]


def origin(url: str) -> Origin | None:
    """Scheme, host and port of an absolute address; None for what is none."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return None
    scheme = found[1].lower()
    port = int(found[3]) if found[3] else (443 if scheme == "https" else 80)
    return (scheme, found[2].lower(), port) if 0 < port <= _HIGHEST_PORT else None


def has_dots(path: str) -> bool:
    """Whether a part of the path leads back up, or would to some servers."""
    return _DOTS.search(path.partition("?")[0]) is not None


def is_header_name(text: str) -> bool:
    """Whether a header of this name may be sent in a request of others."""
    return _HEADER.fullmatch(text) is not None and text.lower() not in RESERVED_HEADERS


def is_sendable(text: str) -> bool:
    """Whether a header may hold it."""
    return _SENDABLE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Sent:
    """A connector as it was sent, with the secrets that came with it."""

    connector: Connector
    given: Mapping[str, str]  # blank: to be cleared

    def kept(self, stored: Connector | None, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the stored secrets that stay; raises where they would move."""
        wanted = SECRETS[self.connector.auth]
        if stored is None or not names:
            return ()
        if stored.destination == self.connector.destination:
            return tuple(one for one in wanted if one in names and one not in self.given)
        if missing := [one for one in wanted if one not in self.given]:
            raise ValidationFailedError([Fault(f"secrets.{one}", SEND_AGAIN) for one in missing])
        return ()
