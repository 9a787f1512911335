"""Taking known secrets out of a text: those that an attempt used, in whatever form they come back.

Redaction knows credentials by their looks; here they are known by their value. A receiver may send
back what it was sent: as it is, percent-encoded, in base64, inside JSON.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from procession.engine.redaction import MASK

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")  # stands for itself, in addresses and in JSON
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")
_ENCODED = re.compile(r"%[0-9A-F]{2}")
LEAST_PART = 6  # signs of a secret's middle, or of its beginning before a cut, that are told apart


def mask(text: str, secrets: Iterable[str], *, is_cut: bool = False) -> str:
    """The text without these secrets; where it was cut, without what began before the cut."""
    # no form is shorter than its secret, so most of what is answered is not searched at all
    asked = {one for one in secrets if one and (is_cut or len(one) <= len(text))}
    if not asked:
        return text
    forms = sorted({form for one in asked for form in forms_of(one)}, key=len)
    for form in reversed(forms):  # the longest first: a shorter one may be part of it
        text = text.replace(form, MASK)
    return _without_a_beginning(text, forms) if is_cut else text


def forms_of(secret: str) -> Iterator[str]:
    """The ways in which a secret may stand in a text."""
    yield secret
    if not _PLAIN.fullmatch(secret):
        whole = quote(secret, safe="", errors="surrogatepass")
        for encoded in (whole, whole.replace("%2F", "/"), whole.replace("%20", "+")):
            yield encoded
            yield _ENCODED.sub(lambda sign: sign[0].lower(), encoded)
        for ascii_only in (True, False):
            yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    encodings = [base64.b64encode(raw)]
    encodings += [_middle(raw, before) for before in range(3)]  # inside a longer text
    for one in encodings:
        if len(one) >= LEAST_PART:
            yield one.decode()
            yield one.translate(_FOR_ADDRESSES).decode()


def _middle(raw: bytes, before: int) -> bytes:
    """The signs of its base64 that are its own, behind so many bytes of a group of three."""
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
