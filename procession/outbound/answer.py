"""What comes back from a call."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import httpcore2 as httpcore
import httpx2 as httpx

from procession.outbound.capture import Capture, read
from procession.outbound.progress import Progress
from procession.outbound.retry_after import read_retry_after

LONGEST_INT = 1_000  # digits
FRAMING = 8  # for one byte of a body that many bytes come, one may be of its chunks


def is_success(status: int) -> bool:
    """Whether what was asked for was done, as HTTP has it."""
    return 200 <= status < 300  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and as much of the body as was asked for, after this many tries."""

    status_code: int
    raw_headers: list[tuple[bytes, bytes]]
    content: bytes
    tries: int = 1

    @property
    def headers(self) -> httpx.Headers:
        return httpx.Headers(self.raw_headers)

    @property
    def text(self) -> str:
        """The body as text, with what is not UTF-8 spelt out."""
        return self.content.decode("utf-8", "backslashreplace")

    def json(self) -> object:
        """The body's value; raises ValueError."""
        return json.loads(self.content, parse_int=_number)


def _number(digits: str) -> int | float:
    """Python refuses to read an int of thousands of digits; JSON allows it."""
    return int(digits) if len(digits) <= LONGEST_INT else float(digits)


class HttpReply:
    """An answer whose headers have come, and whose body waits."""

    def __init__(
        self,
        response: httpcore.Response,
        progress: Progress,
        give_back: Callable[[], Awaitable[None]],
    ) -> None:
        self._response = response
        self._progress = progress
        self._give_back = give_back
        self.status = response.status
        self.headers = response.headers

    def _all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == name]

    @property
    def retry_after(self) -> timedelta | None:
        values = self._all(b"retry-after")
        return read_retry_after(values, datetime.now(UTC)) if values else None

    async def read(self, capture: Capture, host: str) -> bytes:
        """As much of the body as the capture takes."""
        self._progress.body = capture.wire + capture.wire // FRAMING
        encoding = ",".join(self._all(b"content-encoding"))
        stream = cast(
            "AsyncGenerator[bytes]", aiter(cast("AsyncIterable[bytes]", self._response.stream))
        )
        async with aclosing(stream) as chunks:
            return await read(chunks, host, capture, encoding)

    async def aclose(self) -> None:
        """Give the connection back, or close it when the body was not read to its end."""
        await self._response.aclose()
        await self._give_back()
