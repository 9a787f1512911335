"""Who may read the metrics: whoever has the scrape key, and nobody where there is none.

The API and a worker serve them alike; a worker does so without the rest of the API.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _nothing() -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class Scrape:
    """The metrics of a process, and the key to them."""

    key: str = ""
    text: Callable[[], bytes] = _nothing

    def lets_in(self, headers: Headers) -> bool:
        """Whether the key is given: as a bearer, or in a header of its own."""
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        given = [headers.get("x-scrape-key", "")]
        if scheme.lower() == "bearer":
            given.append(credential.strip())
        hits = [self._is_key(one) for one in given]
        return bool(self.key) and any(hits)

    def _is_key(self, given: str) -> bool:
        # of digests, so that not even a length shows
        wanted = hashlib.sha256(self.key.encode()).digest()
        return hmac.compare_digest(hashlib.sha256(given.encode("latin-1")).digest(), wanted)

    def answer(self) -> Response:
        """All metrics, as Prometheus reads them."""
        return Response(
            self.text(), headers={"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
        )

    def answer_to(self, headers: Headers) -> Response:
        """The metrics, or a refusal without a word."""
        if self.lets_in(headers):
            return self.answer()
        return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
