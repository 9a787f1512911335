"""What a packed body holds, a piece at a time and no more of it than there is room for.

A body is one stream, or with gzip several on end. What is behind the end is no part of it: nothing
of that is looked at, since zlib would copy all of it again for every piece that comes.
"""

import zlib

GZIP, MAGIC = 31, 0x1F  # as zlib calls it, and the byte that it begins with
WINDOW_BITS = {"gzip": (GZIP,), "x-gzip": (GZIP,), "deflate": (15, -15)}  # some send it headless


class Unpacker:
    """A body that is said to be packed."""

    def __init__(self, encoding: str) -> None:
        self._containers = WINDOW_BITS.get(encoding.strip().lower(), ())
        self._stream = zlib.decompressobj(self._containers[0]) if self._containers else None
        self._is_first = True  # of several streams
        self._fed: bytearray | None = bytearray()  # while nothing came of it: it may be another
        self.is_over = False  # the end is past, or the rest cannot be read

    def unpacked(self, piece: bytes, room: int) -> bytes:
        """What this piece adds, as far as there is room."""
        if self._stream is None:
            return piece[:room]
        if self._fed is not None:
            self._fed += piece
        try:
            found = self._streams(piece, room)
        except zlib.error:
            return self._otherwise(room)
        if found:
            self._fed = None
        return found

    def _streams(self, piece: bytes, room: int) -> bytes:
        """What one stream or several give; raises zlib.error when already the first is broken."""
        found = bytearray()
        assert self._stream is not None
        while piece and len(found) < room and not self.is_over:
            if self._stream.eof:
                if GZIP not in self._containers or piece[0] != MAGIC:
                    self.is_over = True
                    break
                self._stream, self._is_first = zlib.decompressobj(GZIP), False
            try:
                found += self._stream.decompress(piece, room - len(found))
            except zlib.error:
                if self._is_first:
                    raise
                self.is_over = True
            piece = self._stream.unused_data
        return bytes(found)

    def _otherwise(self, room: int) -> bytes:
        """What there is by another container, or by none."""
        if self._fed is None:
            self.is_over = True
            return b""
        fed, self._fed = bytes(self._fed), bytearray()
        self._containers = self._containers[1:]
        self._stream = zlib.decompressobj(self._containers[0]) if self._containers else None
        return self.unpacked(fed, room)
