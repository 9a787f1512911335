"""What is read of a response: a bounded piece, however much is sent and however it is packed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic

import httpcore2 as httpcore

from procession.outbound.faults import AnswerTooLarge, ConnectionLost, Timeout
from procession.outbound.stream import TooMuchError
from procession.outbound.unpacking import Unpacker

SECONDS = 30.0  # for a body, after its headers
TURN = 0.002  # of them for what has come already


@dataclass(frozen=True, slots=True)
class Capture:
    """How much of a body is taken from the wire, and how much of it is kept once unpacked.

    Of a body that is needed whole, more than that is a fault; of another, the rest is not read.
    """

    wire: int
    kept: int
    whole: bool = False


EXCERPT = Capture(65_536, 4_096)
NOTHING = Capture(0, 0)
WHOLE = Capture(8_388_608, 8_388_608, whole=True)


class Body:
    """What has come of a body."""

    def __init__(self, capture: Capture, encoding: str = "") -> None:
        self._capture = capture
        self._unpacker = Unpacker(encoding)
        self._taken = 0
        self.is_whole = True

    def __bytes__(self) -> bytes:
        return bytes(self._unpacker.found[: self._capture.kept])

    def take(self, chunk: bytes) -> bool:
        """Whether more may be taken after this piece."""
        piece = chunk[: self._capture.wire - self._taken]
        self._taken += len(piece)
        most = self._capture.kept + 1  # one more than is kept shows that there is more
        self._unpacker.take(piece, most)
        too_much = len(self._unpacker.found) > self._capture.kept
        self.is_whole = self.is_whole and len(piece) == len(chunk) and not too_much
        over = self._unpacker.is_over or (self._capture.whole and too_much)
        return len(piece) == len(chunk) and not over


async def read(
    chunks: AsyncIterator[bytes], host: str, capture: Capture, encoding: str = ""
) -> bytes:
    """As much of the body as the capture takes; a fault only where all of it is needed."""
    if not capture.wire:
        return b""
    body = Body(capture, encoding)
    try:
        async with asyncio.timeout(SECONDS):
            await _fill(body, chunks)
    except TimeoutError:
        if capture.whole:
            raise Timeout(host) from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        if capture.whole:
            raise ConnectionLost(host) from None
    if capture.whole and not body.is_whole:
        raise AnswerTooLarge(host)
    return bytes(body)


async def _fill(body: Body, chunks: AsyncIterator[bytes]) -> None:
    """Take what comes. What came at once may be thousands of chunks: others have turns between."""
    since = monotonic()
    try:
        async for chunk in chunks:
            if not body.take(chunk):
                break
            if monotonic() - since > TURN:
                await asyncio.sleep(0)
                since = monotonic()
    except TooMuchError:
        body.is_whole = False
