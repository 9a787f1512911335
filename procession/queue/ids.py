"""Ids that sort by when they were made: uuid version 7, which Postgres has from 18 on."""

import secrets
import time
from uuid import UUID

VERSION_7 = 0x7 << 76
VARIANT = 0x2 << 62


def uuid7() -> UUID:
    """48 bits of milliseconds, then 74 random ones."""
    random = secrets.randbits(74)
    moment = time.time_ns() // 1_000_000 << 80
    return UUID(int=moment | VERSION_7 | random >> 62 << 64 | VARIANT | random & (1 << 62) - 1)
