"""What is read of a response: a bounded piece, however much is sent and however it is packed."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpcore2 as httpcore

from procession.outbound.faults import AnswerTooLarge, ConnectionLost, Timeout

SECONDS = 30.0  # for a body, after its headers
WINDOW_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}  # some send it headless


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
        self._containers = WINDOW_BITS.get(encoding.strip().lower(), ())
        self._unpacker = zlib.decompressobj(self._containers[0]) if self._containers else None
        self._taken = 0
        self._kept = bytearray()
        self.is_whole = True

    def __bytes__(self) -> bytes:
        return bytes(self._kept[: self._capture.kept])

    def take(self, chunk: bytes) -> bool:
        """Whether more may be taken after this piece."""
        piece = chunk[: self._capture.wire - self._taken]
        self._taken += len(piece)
        room = self._capture.kept + 1 - len(self._kept)  # one more than is kept shows that it is
        if room > 0:
            self._kept += self._unpacked(piece, room)
        too_much = len(self._kept) > self._capture.kept
        self.is_whole = self.is_whole and len(piece) == len(chunk) and not too_much
        return len(piece) == len(chunk) and not (self._capture.whole and too_much)

    def _unpacked(self, piece: bytes, room: int) -> bytes:
        if self._unpacker is None:
            return piece[:room]
        try:
            return self._unpacker.decompress(piece, room)
        except zlib.error:
            self._containers = self._containers[1:] if not self._kept else ()
            self._unpacker = zlib.decompressobj(self._containers[0]) if self._containers else None
            return self._unpacked(piece, room)


async def read(
    chunks: AsyncIterator[bytes], host: str, capture: Capture, encoding: str = ""
) -> bytes:
    """As much of the body as the capture takes; a fault only where all of it is needed."""
    if not capture.wire:
        return b""
    body = Body(capture, encoding)
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in chunks:
                if not body.take(chunk):
                    break
    except TimeoutError:
        if capture.whole:
            raise Timeout(host) from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        if capture.whole:
            raise ConnectionLost(host) from None
    if capture.whole and not body.is_whole:
        raise AnswerTooLarge(host)
    return bytes(body)
