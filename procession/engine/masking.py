"""Taking known secrets out of a text: those that an attempt used, in whatever form they come back.

Redaction knows credentials by their looks; here they are known by their value. A receiver may send
back what it was sent: as it is, percent-encoded, in base64, inside JSON.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from procession.engine.redaction import MASK

_ENCODED = re.compile(r"%[0-9A-F]{2}")
LEAST_PART = 6  # signs of a secret's middle, or of its beginning before a cut, that are told apart


def mask(text: str, secrets: Iterable[str], *, is_cut: bool = False) -> str:
    """The text without these secrets; where it was cut, without what began before the cut."""
    if not text:
        return text
    forms = sorted({form for one in secrets if one for form in forms_of(one)}, key=len)
    for form in reversed(forms):  # the longest first: a shorter one may be part of it
        text = text.replace(form, MASK)
    return _without_a_beginning(text, forms) if is_cut else text


def forms_of(secret: str) -> Iterator[str]:
    """The ways in which a secret may stand in a text."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield _ENCODED.sub(lambda sign: sign[0].lower(), encoded)
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode()
    for before in range(3):  # inside a longer text, by where it begins in a group of three bytes
        if len(middle := _middle(raw, before)) >= LEAST_PART:
            yield middle.decode()
            yield middle.replace(b"+", b"-").replace(b"/", b"_").decode()


def _middle(raw: bytes, before: int) -> bytes:
    """The signs of its base64 that depend on nothing around it."""
    encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
    first = (0, 2, 3)[before]
    last = (before + len(raw)) * 8 // 6
    return encoded[first:last]


def _without_a_beginning(text: str, forms: list[str]) -> str:
    longest = max((len(form) for form in forms), default=0)
    for length in range(min(longest, len(text)), LEAST_PART - 1, -1):
        end = text[-length:]
        if any(form.startswith(end) for form in forms):
            return text[:-length] + MASK
    return text
