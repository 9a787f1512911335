"""Standard Webhooks signatures: what a receiver needs to know that a message is ours and fresh."""

import base64
import hmac

from procession.engine.signing_keys import BadSecretError, keys_of

__all__ = ["BadSecretError", "keys_of", "signature"]


def signature(keys: tuple[bytes, ...], message: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one entry for each key."""
    signed = f"{message}.{timestamp}.".encode() + body
    return " ".join(f"v1,{_digest(key, signed)}" for key in keys)


def _digest(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
