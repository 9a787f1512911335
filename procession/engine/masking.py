"""Taking known secrets out of a text: those that an attempt used, in whatever form they come back.

Redaction knows credentials by their looks; here they are known by their value. A receiver may send
back what it was sent: as it is, percent-encoded, in base64, inside JSON or HTML. The usual forms
are looked for as they are; then escapes are undone, and all looked for in what comes of it.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from urllib.parse import quote

from procession.engine.redaction import MASK
from procession.engine.unescaping import (
    Reading,
    Span,
    broken,
    readings,
    squeezed,
)

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")  # stands for itself in addresses
_PLAIN_IN_JSON = re.compile(r"[ !#-\[\]-~]*")
_FOR_ADDRESSES = bytes.maketrans(b"+/", b"-_")
_ENCODED = re.compile(r"%[0-9A-F]{2}")
_SPACE = re.compile(r"\s")
LEAST_PART = 6  # signs of a secret's middle, or of its beginning before a cut, that are told apart
LONGEST_KEPT = 1_024  # of a secret whose forms are kept
LONGEST_ESCAPE = 12  # signs for one
SLACK = 16  # of a secret behind what a text has room for: where base64 is not that of the whole


def mask(text: str, secrets: Iterable[str], *, is_cut: bool = False) -> str:
    """The text without these secrets; where it was cut, without what began before the cut."""
    if is_cut and len(text) < LEAST_PART:
        is_cut = False  # it is no beginning that is told apart
    # no form is shorter than its secret, so most of what is answered is not searched at all
    asked = {one for one in secrets if one and (is_cut or len(one) <= len(text))}
    if not asked:
        return text
    known = [
        _forms_kept(one) if len(one) <= LONGEST_KEPT else _forms(one, len(text) + SLACK)
        for one in asked
    ]
    forms = Forms(
        [form for one in known for form in one.whole],
        [form for one in known for form in one.in_lines],
    )
    return _without(text, set(_found(text, forms, is_cut=is_cut)))


@dataclass(frozen=True, slots=True)
class Forms:
    """The ways in which a secret may stand in a text."""

    whole: Sequence[str]
    in_lines: Sequence[str]  # those of them that white space may part


def _undone(secret: str, longest: int) -> Iterator[str]:
    """What a secret that looks escaped becomes where it is undone with what is around it."""
    for one in islice(readings(secret[: longest * LONGEST_ESCAPE]), 1, None):
        if len(one.text) >= LEAST_PART:
            yield one.text[:longest]


def _in_one_piece(secret: str) -> Iterator[str]:
    """The ways in which a secret may stand in a text in one piece."""
    yield secret
    yield secret.replace(" ", "+")  # as in forms, where the rest of it is escaped or is not
    if not _PLAIN.fullmatch(secret):
        whole = quote(secret, safe="", errors="surrogatepass")
        lower = _ENCODED.sub(lambda sign: sign[0].lower(), whole)
        for encoded, slash in ((whole, "%2F"), (lower, "%2f")):
            yield from (encoded, encoded.replace(slash, "/"), encoded.replace("%20", "+"))
    if not _PLAIN_IN_JSON.fullmatch(secret):
        for ascii_only in (True, False):
            yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]


def _in_base64(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    encodings = [base64.b64encode(raw)]
    encodings += [_middle(raw, before) for before in range(3)]  # inside a longer text
    for one in encodings:
        if len(one) >= LEAST_PART:
            yield one.decode()
            yield one.translate(_FOR_ADDRESSES).decode()


def _forms(secret: str, longest: int) -> Forms:
    """The forms of as much of the secret as a text has room for."""
    part = secret[:longest]
    in_lines = tuple(dict.fromkeys(_in_base64(part)))
    others = (*_in_one_piece(part), *_undone(secret, longest))
    return Forms(tuple(dict.fromkeys((*others, *in_lines))), in_lines)


@lru_cache(maxsize=256)  # those of a workflow or a connector are used again and again
def _forms_kept(secret: str) -> Forms:
    return _forms(secret, LONGEST_KEPT)


def _middle(raw: bytes, before: int) -> bytes:
    """The signs of its base64 that are its own, behind so many bytes of a group of three."""
    encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
    first = (0, 2, 3)[before]
    last = (before + len(raw)) * 8 // 6
    return encoded[first:last]


def _found(text: str, forms: Forms, *, is_cut: bool) -> Iterator[Span]:
    """Where a form stands: as it is, escaped by somebody's encoder, or parted into lines."""
    shown = list(readings(text))
    lines = [squeezed(one) for one in shown if _SPACE.search(one.text)]
    for one in shown:
        yield from _standing(one, forms.whole)
    for one in lines:
        yield from _standing(one, forms.in_lines)
    if not is_cut:
        return
    shorter = list(broken(shown))
    for one in (*shown, *shorter):
        yield from _begun(one, forms.whole, len(text))
    for one in (*lines, *map(squeezed, shorter)):
        yield from _begun(one, forms.in_lines, len(text))


def _standing(reading: Reading, forms: Iterable[str]) -> Iterator[Span]:
    for form in forms:
        at = reading.text.find(form)
        while at >= 0:
            end = at + len(form)
            yield reading.place(at, end)
            at = reading.text.find(form, end)


def _begun(reading: Reading, forms: Iterable[str], end: int) -> Iterator[Span]:
    """What is left of the text from where a form begins that its end cuts off."""
    if (at := _beginning(reading.text, forms)) is not None:
        yield reading.place(at, at + 1)[0], end


def _without(text: str, spans: Iterable[Span]) -> str:
    kept: list[str] = []
    done = 0
    for begin, end in sorted(spans):
        if begin >= done:
            kept += (text[done:begin], MASK)
        done = max(done, end)
    return "".join((*kept, text[done:]))


def _beginning(text: str, forms: Iterable[str]) -> int | None:
    """Where the beginning of a form stands that the end of the text cuts off."""
    found: list[int] = []
    for form in forms:
        start = form[:LEAST_PART]
        if start not in text or len(start) < LEAST_PART:
            continue  # as nearly always
        at = text.find(start, max(0, len(text) - len(form)))
        while at >= 0 and not form.startswith(text[at:]):
            at = text.find(start, at + 1)
        if at >= 0:
            found.append(at)
    return min(found, default=None)
