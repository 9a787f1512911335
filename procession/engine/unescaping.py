"""A text with the escapes of JSON, JavaScript and HTML undone, and where each sign of it stood."""

import html
import re
from collections.abc import Iterator

ROUNDS = 3  # one escape inside another: HTML inside JSON, JSON inside JSON
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\"'\\/bfnrt]"
    r"|&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z]{2,8});"
)
_BROKEN = re.compile(  # an escape that was cut
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?|&#?[0-9A-Za-z]{0,8})?\Z"
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

Span = tuple[int, int]


def readings(text: str) -> Iterator[tuple[str, list[Span]]]:
    """The text with its escapes undone, once and again; each sign with its place in the text."""
    where = [(at, at + 1) for at in range(len(text))] if _ESCAPE.search(text) else []
    for _ in range(ROUNDS):
        if not _ESCAPE.search(text):
            return
        text, where = _undone(text, where)
        yield text, where


def without_broken(text: str) -> str:
    """The text up to an escape that was cut at its end."""
    return _BROKEN.sub("", text, count=1)


def _undone(text: str, where: list[Span]) -> tuple[str, list[Span]]:
    signs: list[str] = []
    places: list[Span] = []
    done = 0
    for found in _ESCAPE.finditer(text):
        begin, end = found.span()
        sign = _meaning(found[0])
        signs += (text[done:begin], sign)
        places += where[done:begin]
        places += [(where[begin][0], where[end - 1][1])] * len(sign)
        done = end
    signs.append(text[done:])
    places += where[done:]
    return "".join(signs), places


def _meaning(escape: str) -> str:
    if escape[0] == "&":
        return html.unescape(escape)
    if escape[1] in "ux":
        units = [int(one[1:], 16) for one in escape.split("\\")[1:]]
        raw = b"".join(unit.to_bytes(2, "big") for unit in units)
        return raw.decode("utf-16-be", "surrogatepass")
    return _SHORT.get(escape[1], escape[1])
