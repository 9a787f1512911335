"""What a token of an identity provider claims, once it is sure that the provider says so.

Its signature by a key that the issuer publishes, the issuer itself, whom it is for, and its times.
Where the keys come from is `public_keys`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Self

import jwt

from procession.outbound.http import Client
from procession.outbound.public_keys import ALGORITHMS, PublicKey, PublicKeys

LONGEST = 65_536  # characters of a token
LEEWAY = 60  # seconds that clocks may differ by


class RefusedTokenError(Exception):
    """The token is not one of this issuer for us, or not now."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose tokens are taken, and whom they must be for."""

    issuer: str
    audience: str


class Issuer:
    """The identity provider, as one process knows it. The client is its own to close."""

    def __init__(
        self, client: Client, provider: Provider, clock: Callable[[], float] = monotonic
    ) -> None:
        self._client = client
        self._provider = provider
        self._keys = PublicKeys(client.of(""), provider.issuer, clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._keys.aclose()
        await self._client.aclose()

    async def claims(self, token: str) -> Mapping[str, object]:
        """What it says; raises RefusedTokenError, or KeysAwayError."""
        if len(token) > LONGEST:
            raise RefusedTokenError
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise RefusedTokenError from None
        algorithm: object = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise RefusedTokenError  # and no key is asked for
        for key in await self._keys.named(header.get("kid")):
            if (said := self._read(token, key)) is not None:
                return said
        raise RefusedTokenError

    def _read(self, token: str, key: PublicKey) -> Mapping[str, object] | None:
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                issuer=self._provider.issuer,
                audience=self._provider.audience,
                leeway=LEEWAY,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_iat": False,  # neither says anything of whether it is good
                    "verify_jti": False,
                },
            )
        except jwt.PyJWTError:
            return None
