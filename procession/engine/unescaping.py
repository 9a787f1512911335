"""A text with the escapes of JSON, JavaScript, HTML and addresses undone.

An encoder may escape as much or as little as it likes, and in capital or small letters: undone, it
is all the same. Each sign knows where it stood, if the first reading says so: most texts hold
nothing that is looked for, and need no places.
"""

import html
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

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
_SOLID = re.compile(r"\S+")

LONGEST_BROKEN = 16

Span = tuple[int, int]
Reading = tuple[str, list[Span] | None]  # the signs, and the place of each in the text


def readings(text: str, *, placed: bool = False) -> Iterator[Reading]:
    """The text as it is, and with its escapes undone, once and again."""
    text = text.translate(_SIGNS) if _RAW.search(text) else text
    one = text, [(at, at + 1) for at in range(len(text))] if placed else None
    yield one
    for _ in range(ROUNDS):
        if not _ESCAPE.search(one[0]):
            return
        one = _undone(*one)
        yield one


def broken(whole: Sequence[Reading]) -> Iterator[Reading]:
    """The readings of a text that was cut, without what the cut broke, where it broke anything."""
    last: Reading | None = None  # as long as nothing is broken
    for one in whole:
        known = one if last is None else _undone(*last)
        text = without_broken(known[0])
        if last is None and len(text) == len(one[0]):
            continue
        last = text, known[1] and known[1][: len(text)]
        yield last


def squeezed(reading: Reading) -> Reading:
    """What it reads without white space, as base64 is that came in lines."""
    text, where = reading
    if where is not None:
        solid = (found.span() for found in _SOLID.finditer(text))
        where = [place for begin, end in solid for place in where[begin:end]]
    return "".join(_SOLID.findall(text)), where


def without_broken(text: str) -> str:
    """The text up to an escape that was cut at its end."""
    found = _BROKEN.search(text, max(0, len(text) - LONGEST_BROKEN))
    return text[: found.start()] if found else text


def _undone(text: str, where: list[Span] | None) -> Reading:
    if where is None:
        parts = _ESCAPE.split(text)
        parts[1::2] = map(meaning, parts[1::2])
        return "".join(parts), None
    signs: list[str] = []
    places: list[Span] = []
    done = 0
    for found in _ESCAPE.finditer(text):
        begin, end = found.span()
        sign = meaning(found[0])
        signs += (text[done:begin], sign)
        places += where[done:begin]
        places += [(where[begin][0], where[end - 1][1])] * len(sign)
        done = end
    signs.append(text[done:])
    places += where[done:]
    return "".join(signs), places


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
