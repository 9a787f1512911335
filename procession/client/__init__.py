"""A client of the API, for Python.

    from procession.client import Client

    with Client("http://127.0.0.1:8000", key) as client:
        saved = client.entries.save("Article", "a-17", {"Title": "Hello"}, status="Published")
        for run_id in saved.run_ids:
            print(client.runs.get(run_id).status)

A refusal raises `RefusedError` with its code, and silence `UnreachableError`. It knows nothing of
the rest of Procession: all that it needs is the address and a key.
"""

from types import TracebackType
from typing import Self

from procession.client.calls import Calls
from procession.client.entries import Entries
from procession.client.errors import ClientError, RefusedError, UnreachableError
from procession.client.runs import Runs
from procession.client.workflows import Applied, Outcome, Workflows

__all__ = [
    "Applied",
    "Client",
    "ClientError",
    "Outcome",
    "RefusedError",
    "UnreachableError",
]


class Client:
    """Procession at an address, as the holder of a key sees it. Close it, or use it in a `with`.

    With the control token for a key, `tenant` says which tenant is meant.
    """

    def __init__(
        self, url: str, key: str, *, tenant: str | None = None, timeout: float = 30.0
    ) -> None:
        self._calls = Calls.to(url, key, tenant, timeout)
        self.entries = Entries(self._calls)
        self.workflows = Workflows(self._calls)
        self.runs = Runs(self._calls)

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
