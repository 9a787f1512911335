"""The Secret of a webhook: one to three keys, several only while one is exchanged for another."""

import base64
import re

_SECRET = re.compile(r"whsec_([A-Za-z0-9+/]+={0,2})", re.ASCII)
SHORTEST, LONGEST = 24, 64  # bytes of a key
MOST = 3


class BadSecretError(ValueError):
    """Not one to three secrets, each `whsec_` and the base64 of 24 to 64 bytes."""


def keys_of(secrets: str) -> tuple[bytes, ...]:
    """The keys of a Secret, separated by single spaces; raises BadSecretError."""
    each = secrets.split(" ")
    if len(each) > MOST:
        raise BadSecretError
    return tuple(_key(one) for one in each)


def _key(secret: str) -> bytes:
    written = _SECRET.fullmatch(secret)
    try:
        key = base64.b64decode(written[1], validate=True) if written else b""
    except ValueError:
        key = b""
    if not SHORTEST <= len(key) <= LONGEST:
        raise BadSecretError
    return key
