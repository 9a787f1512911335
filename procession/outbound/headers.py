"""The headers of a call: what every one of them carries, and what none may set."""

from collections.abc import Mapping
from importlib.metadata import version

OURS = {"User-Agent": f"Procession/{version('procession')}", "Accept-Encoding": "identity"}
# who is called, and where the message ends, is the client's word
NOT_THEIRS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te"}
)


def with_ours(given: Mapping[str, str]) -> dict[str, str]:
    """The given headers, and ours where they do not say otherwise; raises ValueError."""
    names = {name.lower() for name in given}
    if not NOT_THEIRS.isdisjoint(names):
        raise ValueError("A header that is the client's to set")
    return {name: value for name, value in OURS.items() if name.lower() not in names} | dict(given)


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """As they are sent; raises ValueError for what is not ASCII."""
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
