"""Secrets as they are kept: sealed by a key of a ring, each bound to the place where it is stored.

AES-256 in Galois counter mode. A sealed secret is `v1.<key id>.<nonce and ciphertext>`; tenant,
owner and place are what it is authenticated with, so one that is copied elsewhere cannot be opened.
The first key of the ring seals, all of them open.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from procession.engine.credentials import SEALED

NONCE = 12  # bytes
DIGESTED = b"procession first key\0"  # so that the digest is of no use but to compare


class UnreadableError(Exception):
    """No key of the ring opens it, or it stands where it was not put."""

    def __init__(self, lacks: str | None = None) -> None:
        super().__init__()
        self._lacks = lacks  # the id of the key that the ring would need

    @property
    def remedy(self) -> str:
        """What would help, as the end of a sentence."""
        other = "enter it again"
        return f"add the key {self._lacks} to SECRETS__KEYS, or {other}" if self._lacks else other


@dataclass(frozen=True, slots=True)
class Place:
    """Where a secret is kept."""

    tenant: str
    owner: str  # a workflow or a connector
    name: str  # the path within it

    @property
    def bound(self) -> bytes:
        return json.dumps([self.tenant, self.owner, self.name]).encode()


class Ring:
    """The keys of this deployment, by their ids; the order is the operator's."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self._first = next(iter(keys), None)
        self._digests = [hashlib.sha256(DIGESTED + key).digest() for key in keys.values()]

    @property
    def digest(self) -> bytes:
        """By which other processes know the first key."""
        return self._digests[0]

    @property
    def digests(self) -> list[bytes]:
        """By which other processes know all of them."""
        return list(self._digests)

    def holds(self, digest: bytes) -> bool:
        """Whether this is the digest of one of its keys."""
        return digest in self._digests

    def seal(self, secret: str, place: Place) -> str:
        assert self._first is not None, "settings see to it"
        nonce = os.urandom(NONCE)
        sealed = self._keys[self._first].encrypt(nonce, secret.encode(), place.bound)
        return f"v1.{self._first}.{base64.urlsafe_b64encode(nonce + sealed).decode().rstrip('=')}"

    def open(self, text: str, place: Place) -> str:
        """The secret that was sealed for this place; raises UnreadableError.

        What is not sealed at all is of a release that kept it as it came: `rekey` seals it.
        """
        form = SEALED.fullmatch(text)
        if form is None:
            return text
        key = self._keys.get(form[1])
        if key is None:
            raise UnreadableError(form[1])
        try:
            raw = base64.urlsafe_b64decode(form[2] + "=" * (-len(form[2]) % 4))
            return key.decrypt(raw[:NONCE], raw[NONCE:], place.bound).decode()
        except (InvalidTag, ValueError):
            raise UnreadableError from None

    def is_current(self, text: str) -> bool:
        """Whether it is sealed, and by the first key."""
        form = SEALED.fullmatch(text)
        return form is not None and form[1] == self._first

    def renewed(self, text: str, place: Place) -> str:
        """The same secret, sealed by the first key; raises UnreadableError."""
        secret = self.open(text, place)
        return text if self.is_current(text) else self.seal(secret, place)

    def resealed(self, secret: str, stored: str | None, place: Place) -> str:
        """The secret as it is to be kept, where this is stored: the same one is left as it is."""
        if stored is None:
            return self.seal(secret, place)
        try:
            is_same = self.open(stored, place) == secret
        except UnreadableError:
            is_same = False
        return stored if is_same else self.seal(secret, place)


NO_KEYS = Ring({})  # opens nothing that is sealed
