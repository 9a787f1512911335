"""Taking out of an error text what must not be kept: credentials, addresses, persons, ids.

A text is made storable, shortened, masked, then cut, in this order: the cut comes last, so that a
credential across it leaves nothing. A mask may hit what is harmless; losing that is the price.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import cast

MASK = "[redacted]"
LONGEST_READ = 4096  # what is masked at all; the rest of a longer text is dropped unread
LONGEST = 500  # what is kept

_LAST_SPACE = re.compile(r"\s\S*\Z")
_SIGNS = re.compile(r"[\x00\ud800-\udfff]")


def redact(text: str) -> str:
    """The text as it may be stored and logged; at most 500 characters."""
    text = _shortened(storable(text[: LONGEST_READ + 1]))  # which spells out, and is never shorter
    for step in _STEPS:
        text = step(text)
    return text[:LONGEST]


def storable(text: str) -> str:
    r"""The text with what Postgres cannot keep spelt out: NUL as \u0000, lone surrogates alike."""
    if type(text) is not str:  # or it comes back as it is
        text = str.__str__(text)
    if text.isascii() and "\0" not in text:
        return text
    return _SIGNS.sub(lambda sign: f"\\u{ord(sign.group()):04x}", text)


def storable_value(value: object) -> object:
    """The same for every text and key in a JSON value."""
    match value:
        case str():
            return storable(value)
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return {storable(key): storable_value(one) for key, one in pairs}
        case list():
            return [storable_value(one) for one in cast("list[object]", value)]
        case _:
            return value


def _shortened(text: str) -> str:
    """What comes before the last white space of the part that is read.

    No step would know a credential that is cut short.
    """
    if len(text) <= LONGEST_READ:
        return text
    space = _LAST_SPACE.search(text, 0, LONGEST_READ)
    return text[: space.start()] if space else MASK


def _masking(pattern: str, mask: str = MASK) -> Callable[[str], str]:
    return partial(re.compile(pattern).sub, mask)


# What follows a scheme. One pattern for all of an address would look for a scheme from each letter
# behind a dot, and read what is left of the run from each of them.
_HOST = re.compile(
    r"""(?i)://(?:[^\s/?#@"'<>]*@)?(\[[0-9a-f:.]+\]|[^\s/?#:@"'<>\\,;()\[\]{}]+)(:\d{1,5})?[^\s"'<>]*"""
)
_RUN = re.compile(r"(?i)[a-z0-9+.-]*")
_SCHEME = re.compile(r"(?i)\b[a-z]")  # where one begins in the run


def _addresses_cut(text: str) -> str:
    """Addresses, of which scheme, host and port stay."""
    kept: list[str] = []
    done, backwards = 0, text[::-1]
    at = text.find("://")
    while at >= 0:
        run = _RUN.match(backwards, len(text) - at)
        begin = max(done, at - (len(run[0]) if run else 0))
        found = _HOST.match(text, at) if _SCHEME.search(text, begin, at) else None
        if found:
            kept += (text[done:at], "://", found[1], found[2] or "")
            done = found.end()
        at = text.find("://", found.end() if found else at + 1)
    return "".join((*kept, text[done:]))


_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]++(\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?)?")


def _tokens_masked(text: str) -> str:
    """JSON Web Tokens. What only begins like one is passed over as a whole, and read once."""
    return _TOKEN.sub(lambda found: MASK if found[1] else found[0], text)


# The order is part of the rule: addresses and headers before the names in them, credentials known
# by their name before those known by their looks.
_STEPS = (
    # PEM blocks, whole or cut off
    _masking(r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)"),
    _addresses_cut,
    # header lines
    _masking(
        r"""(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|webhook-signature)(["']?\s*[:=]\s*)[^\r\n]*""",
        r"\1\2[redacted]",
    ),
    # Bearer and Basic
    _masking(r"""(?i)\b(bearer)\s+[^\s,;"']+""", r"\1 [redacted]"),
    _masking(r"(?i)\b(basic)\s+[a-z0-9+/_-]{8,}={0,2}", r"\1 [redacted]"),
    # names that look like credentials with their value, closed or cut off
    _masking(
        r"""(?i)((?:secret|passw(?:or)?d|pwd|token|api[_-]?key|credential|private[_-]?key|access[_-]?key|authorization|signature|session|jwt)[\w.-]{0,40}["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)|(?!\[redacted\])[^\s,;&"'<>)\]}]+)""",
        r"\1[redacted]",
    ),
    # short query names
    _masking(r"""(?i)([?&](?:key|sig|auth|code|sid|state|otp|pin)=)[^&\s"'<>]+""", r"\1[redacted]"),
    # JSON Web Tokens
    _tokens_masked,
    # the prefixes of known keys
    _masking(
        r"\b(?:prc_|whsec_|sk[-_]|rk_|pk_|re_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|SG\.|ya29\.|npm_|pypi-)[A-Za-z0-9_.+/=-]{8,}",
    ),
    # UUIDs
    _masking(r"(?i)\{?\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b\}?"),
    # email addresses
    _masking(r"(?i)[a-z0-9._%+'-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*"),
    # IPv4
    _masking(r"\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d{1,5})?"),
    # IPv6
    _masking(
        r"(?i)(?<![\w:.])\[?(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?=[0-9a-f:]*::)[0-9a-f:]{2,39})(?:%\w+)?\]?(?::\d{1,5})?(?![\w:])",
    ),
    # long runs of hex, digits or key signs
    _masking(
        r"(?i)\b[0-9a-f]{16,}\b|\b\d{12,}\b|(?<![a-z0-9+/_=-])(?=[a-z0-9+/_=-]*\d)(?=[a-z0-9+/_=-]*[a-z])[a-z0-9+/_=-]{20,}",
    ),
)
