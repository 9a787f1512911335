"""A text with the escapes of JSON, JavaScript, HTML and addresses undone.

An encoder may escape as much or as little as it likes, and in capital or small letters: undone, it
is all the same. Each sign knows where it stood, if the first reading says so: most texts hold
nothing that is looked for, and need no places.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate

ROUNDS = 3  # one escape inside another: HTML inside JSON, JSON inside JSON
_BYTE, _NEXT = "%[0-9a-fA-F]{2}", "%[89abAB][0-9a-fA-F]"
_ESCAPE = re.compile(
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\"'\\/bfnrt]"
    r"|&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z]{2,8});"
    rf"|%[cCdD][0-9a-fA-F]{_NEXT}|%[eE][0-9a-fA-F](?:{_NEXT}){{2}}|%[fF][0-7](?:{_NEXT}){{3}}"
    rf"|%u[0-9a-fA-F]{{4}}|{_BYTE})"
)
_BROKEN = re.compile(  # an escape that was cut
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?|&#?[0-9A-Za-z]{0,8}"
    rf"|(?:%[c-fC-F][0-9a-fA-F](?:{_NEXT}){{0,2}})?(?:%(?:[0-9a-fA-F]|u[0-9a-fA-F]{{0,3}})?)?)?\Z"
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_RAW = re.compile(r"[\udc80-\udcff]")  # bytes that are no UTF-8, as surrogateescape decodes them
_SIGNS = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}  # of an older encoding
_SPACES = re.compile(r"(\s+)")

LONGEST_BROKEN = 16

Span = tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """A text as it is read, and the parts of another that it was made of, one for one."""

    text: str
    of: "Reading | None" = None
    parts: Sequence[str] = ()  # every second of them, from the second on, became something else
    became: Sequence[str] = ()

    def place(self, begin: int, end: int) -> Span:
        """Where in the first text the signs from here to there stand."""
        if self.of is None:
            return begin, end
        return self.of.place(self._origin(begin)[0], self._origin(end - 1)[1])

    def _origin(self, at: int) -> Span:
        was, is_now = self._ends
        part = bisect_right(is_now, at)
        if part % 2:
            return was[part - 1], was[part]
        origin = was[part] - (is_now[part] - at)
        return origin, origin + 1

    @cached_property  # most texts hold nothing that is looked for
    def _ends(self) -> tuple[Sequence[int], Sequence[int]]:
        return tuple(accumulate(map(len, self.parts))), tuple(accumulate(map(len, self.became)))


def readings(text: str) -> Iterator[Reading]:
    """The text as it is, and with its escapes undone, once and again."""
    one = Reading(text.translate(_SIGNS) if _RAW.search(text) else text)
    yield one
    for _ in range(ROUNDS):
        if not _ESCAPE.search(one.text):
            return
        one = _undone(one)
        yield one


def broken(whole: Iterable[Reading]) -> Iterator[Reading]:
    """The readings of a text that was cut, without what the cut broke, where it broke anything."""
    last: Reading | None = None  # as long as nothing is broken
    for one in whole:
        if last and not _ESCAPE.search(last.text):
            return
        known = _undone(last) if last else one
        text = _without_broken(known.text)
        if last is None and len(text) == len(one.text):
            continue
        last = replace(known, text=text)
        yield last


def squeezed(reading: Reading) -> Reading:
    """What it reads without white space, as base64 is that came in lines."""
    parts = _SPACES.split(reading.text)
    return _made(reading, parts, [""] * (len(parts) // 2))


def _without_broken(text: str) -> str:
    """The text up to an escape that was cut at its end."""
    found = _BROKEN.search(text, max(0, len(text) - LONGEST_BROKEN))
    return text[: found.start()] if found else text


def _undone(reading: Reading) -> Reading:
    parts = _ESCAPE.split(reading.text)
    return _made(reading, parts, map(meaning, parts[1::2]))


def _made(of: Reading, parts: Sequence[str], others: Iterable[str]) -> Reading:
    became = list(parts)
    became[1::2] = others
    return Reading("".join(became), of, parts, became)


@lru_cache(maxsize=4_096)  # each is short, and stands in a text again and again
def meaning(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[0] == "%" and escape[1] != "u":
        raw = bytes.fromhex(escape.replace("%", ""))
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # of an older encoding: each byte is a sign
            return raw.decode("latin-1")
    if escape[1] in "ux":
        units = [int(one[1:], 16) for one in re.split(r"[\\%]", escape)[1:]]
        raw = b"".join(unit.to_bytes(2, "big") for unit in units)
        return raw.decode("utf-16-be", "surrogatepass")
    return _SHORT.get(escape[1], escape[1])
