"""What a packed body holds, a piece at a time and no more of it than there is room for.

A body is one stream, or with gzip several on end. What is behind the end is no part of it: nothing
of that is looked at, since zlib would copy all of it again for every piece that comes.

What cannot be unpacked from its beginning is kept as it came; what breaks later is kept as far as
it was unpacked. That is the same in whatever pieces it comes: where one breaks, it is fed once more
from before it, byte by byte, since zlib forgets what it found in a piece with a fault in it.
"""

import zlib

GZIP, MAGIC = 31, 0x1F  # as zlib calls it, and the byte that it begins with
HEADLESS = -15
WINDOW_BITS = {"gzip": (GZIP,), "x-gzip": (GZIP,), "deflate": (15, HEADLESS)}  # some send it so
SURE = 1_024  # bytes of a headless stream: plain text may look like one for a few of them
STEP = 4_096  # bytes at a time: no more than these are fed once more


class Unpacker:
    """A body that is said to be packed."""

    def __init__(self, encoding: str) -> None:
        self._containers = WINDOW_BITS.get(encoding.strip().lower(), ())
        self._stream = zlib.decompressobj(self._containers[0]) if self._containers else None
        self._before = self._stream  # as it was before this piece, unless that is a byte
        self._is_first = True  # of several streams
        self._fed: bytearray | None = bytearray()  # until it is sure: it may be another, or none
        self.found = bytearray()
        self.is_over = False  # the end is past, or the rest cannot be read

    def take(self, piece: bytes, most: int) -> None:
        """Add what this piece gives, up to so many bytes in all."""
        if self._stream is None:
            self.found += piece[: max(0, most - len(self.found))]
            return
        for at in range(0, len(piece), STEP):
            self._take(piece[at : at + STEP], most)

    def _take(self, piece: bytes, most: int) -> None:
        """What one stream or several give."""
        while piece and len(self.found) < most and not self.is_over:
            if self._stream is None:
                self.take(piece, most)
                break
            if self._stream.eof:
                if GZIP not in self._containers or piece[0] != MAGIC:
                    self.is_over = True
                    break
                self._stream, self._is_first = zlib.decompressobj(GZIP), False
            self._before = self._stream.copy() if len(piece) > 1 else None
            try:
                self.found += self._stream.decompress(piece, most - len(self.found))
            except zlib.error:
                self._look_closer(piece, most)
                break
            rest = self._stream.unused_data
            self._note(piece[: len(piece) - len(rest)])
            piece = rest

    def _note(self, fed: bytes) -> None:
        """Remember what was fed, until it is sure what it is."""
        if self._fed is None:
            return
        self._fed += fed
        is_headless = self._containers == (HEADLESS,)
        if len(self._fed) >= SURE if is_headless else self.found:
            self._fed = None

    def _look_closer(self, piece: bytes, most: int) -> None:
        """Feed a piece that breaks once more, down to the byte at which it does."""
        if self._before is None:
            self._break_at(piece, most)
            return
        self._stream = self._before
        for at in range(len(piece)):
            self._take(piece[at : at + 1], most)

    def _break_at(self, byte: bytes, most: int) -> None:
        """Read it as another container, or as none, while that may be."""
        if self._fed is None or not self._is_first:
            self.is_over = True
            return
        fed = bytes(self._fed) + byte
        self._fed = bytearray()
        self.found.clear()
        self._containers = self._containers[1:]
        self._stream = zlib.decompressobj(self._containers[0]) if self._containers else None
        self.take(fed, most)
