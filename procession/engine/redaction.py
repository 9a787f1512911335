"""Taking out of an error text what must not be kept: credentials, addresses, persons, ids.

A text is made storable, shortened, masked, then cut, in this order: the cut comes last, so that a
credential across it leaves nothing. A mask may hit what is harmless; losing that is the price.
"""

import re
from typing import cast

MASK = "[redacted]"
LONGEST_READ = 4096  # what is masked at all; the rest of a longer text is dropped unread
LONGEST = 500  # what is kept

_LAST_SPACE = re.compile(r"\s\S*\Z")
_SIGNS = re.compile(r"[\x00\ud800-\udfff]")


def redact(text: str) -> str:
    """The text as it may be stored and logged; at most 500 characters."""
    text = _shortened(storable(text))
    for pattern, mask in _STEPS:
        text = pattern.sub(mask, text)
    return text[:LONGEST]


def storable(text: str) -> str:
    r"""The text with what Postgres cannot keep spelt out: NUL as \u0000, lone surrogates alike."""
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


# The order is part of the rule: addresses and headers before the names in them, credentials known
# by their name before those known by their looks.
_STEPS = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        # PEM blocks, whole or cut off
        (r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", MASK),
        # addresses, of which scheme, host and port stay
        (
            r"""(?i)\b([a-z][a-z0-9+.-]*)://(?:[^\s/?#@"'<>]*@)?(\[[0-9a-f:.]+\]|[^\s/?#:@"'<>\\,;()\[\]{}]+)(:\d{1,5})?[^\s"'<>]*""",
            r"\1://\2\3",
        ),
        # header lines
        (
            r"""(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|webhook-signature)(["']?\s*[:=]\s*)[^\r\n]*""",
            r"\1\2[redacted]",
        ),
        # Bearer and Basic
        (r"""(?i)\b(bearer)\s+[^\s,;"']+""", r"\1 [redacted]"),
        (r"(?i)\b(basic)\s+[a-z0-9+/_-]{8,}={0,2}", r"\1 [redacted]"),
        # names that look like credentials with their value, closed or cut off
        (
            r"""(?i)((?:secret|passw(?:or)?d|pwd|token|api[_-]?key|credential|private[_-]?key|access[_-]?key|authorization|signature|session|jwt)[\w.-]{0,40}["']?\s*[:=]\s*)(?:"(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)|(?!\[redacted\])[^\s,;&"'<>)\]}]+)""",
            r"\1[redacted]",
        ),
        # short query names
        (r"""(?i)([?&](?:key|sig|auth|code|sid|state|otp|pin)=)[^&\s"'<>]+""", r"\1[redacted]"),
        # JSON Web Tokens
        (r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?", MASK),
        # the prefixes of known keys
        (
            r"\b(?:prc_|whsec_|sk[-_]|rk_|pk_|re_|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|SG\.|ya29\.|npm_|pypi-)[A-Za-z0-9_.+/=-]{8,}",
            MASK,
        ),
        # UUIDs
        (r"(?i)\{?\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b\}?", MASK),
        # email addresses
        (r"(?i)[a-z0-9._%+'-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*", MASK),
        # IPv4
        (r"\b(?:\d{1,3}\.){3}\d{1,3}\b(?::\d{1,5})?", MASK),
        # IPv6
        (
            r"(?i)(?<![\w:.])\[?(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?=[0-9a-f:]*::)[0-9a-f:]{2,39})(?:%\w+)?\]?(?::\d{1,5})?(?![\w:])",
            MASK,
        ),
        # long runs of hex, digits or key signs
        (
            r"(?i)\b[0-9a-f]{16,}\b|\b\d{12,}\b|(?<![a-z0-9+/_=-])(?=[a-z0-9+/_=-]*\d)(?=[a-z0-9+/_=-]*[a-z])[a-z0-9+/_=-]{20,}",
            MASK,
        ),
    )
)
