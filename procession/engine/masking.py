"""Taking known secrets out of a text: those that an attempt used, in whatever form they come back.

Redaction knows credentials by their looks; here they are known by their value. A receiver may send
back what it was sent: as it is, percent-encoded, in base64, inside JSON or HTML.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

from procession.engine.redaction import MASK
from procession.engine.unescaping import Span, readings, without_broken

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")  # stands for itself in addresses
_PLAIN_IN_JSON = re.compile(r"[ !#-\[\]-~]*")
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")
_ENCODED = re.compile(r"%[0-9A-F]{2}")
LEAST_PART = 6  # signs of a secret's middle, or of its beginning before a cut, that are told apart


def mask(text: str, secrets: Iterable[str], *, is_cut: bool = False) -> str:
    """The text without these secrets; where it was cut, without what began before the cut."""
    if is_cut and len(text) < LEAST_PART:
        is_cut = False  # it is no beginning that is told apart
    # no form is shorter than its secret, so most of what is answered is not searched at all
    asked = {one for one in secrets if one and (is_cut or len(one) <= len(text))}
    if not asked:
        return text
    forms = sorted({form for one in asked for form in _forms_kept(one)}, key=len)
    for form in reversed(forms):  # the longest first: a shorter one may be part of it
        text = text.replace(form, MASK)
    if is_cut and (at := _beginning(text, forms)) is not None:
        text = text[:at] + MASK
    return _without(text, _escaped(text, forms, is_cut=is_cut))


def forms_of(secret: str) -> Iterator[str]:
    """The ways in which a secret may stand in a text."""
    yield secret
    if not _PLAIN.fullmatch(secret):
        whole = quote(secret, safe="", errors="surrogatepass")
        lower = _ENCODED.sub(lambda sign: sign[0].lower(), whole)
        for encoded, slash in ((whole, "%2F"), (lower, "%2f")):
            yield from (encoded, encoded.replace(slash, "/"), encoded.replace("%20", "+"))
    if not _PLAIN_IN_JSON.fullmatch(secret):
        for ascii_only in (True, False):
            yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    raw = secret.encode("utf-8", "surrogatepass")
    encodings = [base64.b64encode(raw)]
    encodings += [_middle(raw, before) for before in range(3)]  # inside a longer text
    for one in encodings:
        if len(one) >= LEAST_PART:
            yield one.decode()
            yield one.translate(_FOR_ADDRESSES).decode()


@lru_cache(maxsize=256)  # those of a workflow or a connector are used again and again
def _forms_kept(secret: str) -> tuple[str, ...]:
    return tuple(forms_of(secret))


def _middle(raw: bytes, before: int) -> bytes:
    """The signs of its base64 that are its own, behind so many bytes of a group of three."""
    encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
    first = (0, 2, 3)[before]
    last = (before + len(raw)) * 8 // 6
    return encoded[first:last]


def _escaped(text: str, forms: list[str], *, is_cut: bool) -> Iterator[Span]:
    """Where a form stands that somebody's encoder has escaped, wholly or in part."""
    for shown, where in readings(text):
        for form in forms:
            at = shown.find(form)
            while at >= 0:
                yield where[at][0], where[at + len(form) - 1][1]
                at = shown.find(form, at + len(form))
        for one in (shown, without_broken(shown)) if is_cut else ():
            if (at := _beginning(one, forms)) is not None:
                yield where[at][0], len(text)
    whole = without_broken(text) if is_cut else text
    if whole != text and (at := _beginning(whole, forms)) is not None:
        yield at, len(text)


def _without(text: str, spans: Iterable[Span]) -> str:
    kept: list[str] = []
    done = 0
    for begin, end in sorted(spans):
        if begin >= done:
            kept += (text[done:begin], MASK)
        done = max(done, end)
    return "".join((*kept, text[done:]))


def _beginning(text: str, forms: list[str]) -> int | None:
    """Where the beginning of a form stands that the end of the text cuts off."""
    found: list[int] = []
    for form in forms:
        start = form[:LEAST_PART]
        at = text.find(start, max(0, len(text) - len(form))) if len(start) == LEAST_PART else -1
        while at >= 0 and not form.startswith(text[at:]):
            at = text.find(start, at + 1)
        if at >= 0:
            found.append(at)
    return min(found, default=None)
