"""The keys that an issuer signs with: fetched from where it says, kept a while, fetched anew.

One fetch goes on at a time, whoever waits for it. A failed one is not repeated at once, and what
was had before may be used for some hours more. A key that is not known leads to a fetch too, but
seldom: anybody can make up the name of a key.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import cast

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWTError
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from procession.outbound.capture import Capture
from procession.outbound.faults import Fault
from procession.outbound.http import TenantClient

log = logging.getLogger(__name__)

DEADLINE = 10.0  # seconds for a fetch, with all its tries
METADATA = Capture(262_144, 262_144, whole=True)
MOST = 50  # keys
FRESH = 3_600.0  # seconds until they are fetched anew
USABLE = 14_400.0  # until they are not used any more, if that fails
SEEK = 300.0  # between two fetches for keys that are not known
REST = 30.0  # after a failed fetch
RSA_BITS = range(2_048, 16_385)
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
ALGORITHMS = frozenset({*RSA, "ES256", "ES384", "ES512"})  # with HMAC the public key would sign
OK = 200


class KeysAwayError(Exception):
    """The keys of the issuer are out of reach."""


class _UnfitError(Exception):
    """What the issuer answered is not what it should be. The text is ours."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key, and the algorithms that it may be used with."""

    id: str | None
    algorithms: tuple[str, ...]
    key: RSAPublicKey | EllipticCurvePublicKey


class PublicKeys:
    """Those of one issuer, in the memory of one process."""

    def __init__(
        self, client: TenantClient, issuer: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self._client = client
        self._issuer = issuer
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched_at = self._sought_at = self._failed_at = float("-inf")
        self._flight: asyncio.Task[bool] | None = None

    async def named(self, key_id: object) -> list[PublicKey]:
        """The keys of this id, none if the issuer has none; raises KeysAwayError."""
        known, is_fresh = self._find(key_id), self._age() < FRESH
        if known and (is_fresh or self._flight is not None):
            return known
        if is_fresh and self._clock() - self._sought_at < SEEK:
            return []
        if await self._renew():
            if is_fresh:
                self._sought_at = self._clock()
            return self._find(key_id)
        if not known:
            raise KeysAwayError
        return known

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _find(self, key_id: object) -> list[PublicKey]:
        """A token may leave out which one it is of when there is no other."""
        if self._age() >= USABLE:
            return []
        if key_id is None:
            return list(self._keys) if len(self._keys) == 1 else []
        return [one for one in self._keys if one.id == key_id]

    async def _renew(self) -> bool:
        """Whether they were fetched just now, by this caller or by another."""
        if self._flight is None:
            if self._clock() - self._failed_at < REST:
                return False
            self._flight = asyncio.create_task(self._fetch())
        return await asyncio.shield(self._flight)

    async def _fetch(self) -> bool:
        try:
            async with asyncio.timeout(DEADLINE):
                self._keys = await _keys_of(self._client, self._issuer)
        except (Fault, _UnfitError, TimeoutError) as error:
            self._failed_at = self._clock()
            reason = str(error) or "Timeout"
            log.warning("The keys of the issuer (AUTH__OIDC__ISSUER) were not had: %s", reason)
            return False
        finally:
            self._flight = None
        self._fetched_at = self._clock()
        return True

    async def aclose(self) -> None:
        """End the fetch that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait({self._flight})


async def _keys_of(client: TenantClient, issuer: str) -> tuple[PublicKey, ...]:
    metadata = await _get(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if metadata.get("issuer") != issuer:
        raise _UnfitError("its metadata names another issuer")
    address = metadata.get("jwks_uri")
    if not isinstance(address, str):
        raise _UnfitError("its metadata names no place of its keys (jwks_uri)")
    said = (await _get(client, address)).get("keys")
    if not isinstance(said, list):
        raise _UnfitError("its keys are no list")
    listed = cast("list[object]", said)
    if len(listed) > MOST:
        raise _UnfitError(f"it has more than {MOST} keys")
    return tuple(key for one in listed if (key := _public_key(one)) is not None)


async def _get(client: TenantClient, url: str) -> Mapping[str, object]:
    if not url.lower().startswith("https://"):
        raise _UnfitError("an address of it is not https")
    answer = await client.get(url, headers={"Accept": "application/json"}, capture=METADATA)
    if answer.status_code != OK:
        raise _UnfitError(f"HTTP {answer.status_code}")
    try:
        value = answer.json()
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _UnfitError("an answer of it is no JSON object")
    return cast("dict[str, object]", value)


def _public_key(said: object) -> PublicKey | None:
    """A key as it is published; None for one that signs nothing for us."""
    if not isinstance(said, dict):
        return None
    jwk = cast("dict[str, object]", said)
    if jwk.get("use", "sig") != "sig":
        return None
    kind = RSAAlgorithm if jwk.get("kty") == "RSA" else ECAlgorithm
    try:
        key = kind.from_jwk(jwk)
    except (PyJWTError, ValueError, TypeError, AttributeError):
        return None
    if isinstance(key, RSAPublicKey):
        algorithms = RSA if key.key_size in RSA_BITS else ()
    elif isinstance(key, EllipticCurvePublicKey):
        algorithms = CURVES.get(key.curve.name, ())
    else:
        return None  # a private key that is told to all is nobody's any more
    key_id, only = jwk.get("kid"), jwk.get("alg")
    if only is not None:
        algorithms = tuple(one for one in algorithms if one == only)
    if not algorithms:
        return None
    return PublicKey(key_id if isinstance(key_id, str) else None, algorithms, key)
