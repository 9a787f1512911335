"""What an environment variable may hold, and how to say so when it holds something else.

The types read the text of a variable as `docs/settings.md` promises: booleans in six spellings,
integers in decimal digits, lists by commas. Each carries the words that a refusal ends in.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Annotated, Any, NoReturn, get_args
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode

from procession.app.plain import plain
from procession.outbound.guard import Network, networks
from procession.queue.address import FORM, unfit

PREFIXES = (
    *("WORKFLOWS__", "WEBHOOKS__", "OUTBOUND__", "EMAIL__", "SMS__", "AUTH__", "DATABASE__"),
    *("METRICS__", "SECRETS__", "APP__", "HTTP__", "LOG__", "JOBS__"),
)
LONGEST_CLAIM = 200
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Takes:
    """The words for what a variable takes, where its range does not say it."""

    words: str
    secret: bool = False


class UnfitError(ValueError):
    """It is of the right kind, and yet not to be used. The message says what is taken."""


def _boolean(value: str) -> bool:
    return BOOLEANS[value.lower()] if value.lower() in BOOLEANS else _refuse()


def _integer(value: str) -> int:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else _refuse()


def _number(value: str) -> float:
    return float(value) if re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", value) else _refuse()


def _schema(value: str) -> str:
    return value if re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", value) else _refuse()


def _postgres(value: str) -> str:
    if words := unfit(value):
        raise UnfitError(words)
    return value


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    is_absolute = parts.scheme in ("http", "https") and parts.hostname and value.isprintable()
    return value if is_absolute and " " not in value else _refuse()


def _issuer(value: str) -> str:
    """As its tokens name it, to the letter: nothing is added or taken away."""
    parts = urlsplit(_web_address(value))
    bare = not (parts.query or parts.fragment or "@" in parts.netloc or value[-1] in "?#")
    return value if parts.scheme == "https" and value.startswith("https:") and bare else _refuse()


def _claim(value: str) -> str:
    return value if value.isprintable() and len(value) <= LONGEST_CLAIM else _refuse()


def _host(value: str) -> str:
    return str(ip_address(value))


def _tokens(value: str) -> tuple[str, ...]:
    """One token, or a second one beside it while callers change over."""
    tokens = _parts(value)
    good = [one for one in tokens if len(one) >= 32 and one.isascii() and " " not in one]  # noqa: PLR2004
    return tokens if len(good) == len(tokens) <= 2 else _refuse()  # noqa: PLR2004


def _keys(value: str) -> dict[str, bytes]:
    """The keys by their ids, in the order given: the first one encrypts."""
    keys: dict[str, bytes] = {}
    for part in _parts(value):
        name, _, text = part.partition(":")
        try:
            key = base64.b64decode(text, validate=True)
        except binascii.Error:
            _refuse()
        if name in keys or not re.fullmatch(r"[a-z0-9]{1,16}", name) or len(key) != 32:  # noqa: PLR2004
            _refuse()
        keys[name] = key
    return keys


def _parts(value: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in value.split(","))


def _refuse() -> NoReturn:
    raise ValueError


Boolean = Annotated[bool, BeforeValidator(_boolean), Takes("true, false, 1, 0, yes or no")]
Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Schema = Annotated[
    str,
    BeforeValidator(_schema),
    Takes("a name of at most 63 of a-z, 0-9 and _, not a digit first"),
]
PostgresUrl = Annotated[str, BeforeValidator(_postgres), Takes(FORM, secret=True)]
Host = Annotated[str, BeforeValidator(_host), Takes("an IP address, such as 0.0.0.0 or ::")]
ConsoleUrl = Annotated[
    str, BeforeValidator(_web_address), Takes("an absolute http or https address")
]
IssuerUrl = Annotated[
    str,
    BeforeValidator(_issuer),
    Takes("an absolute https address, exactly as the tokens of the issuer have it"),
]
Claim = Annotated[str, BeforeValidator(_claim), Takes("text on one line")]
Networks = Annotated[
    tuple[Network, ...],
    NoDecode,
    BeforeValidator(networks),
    Takes("networks such as 127.0.0.0/8, separated by commas"),
]
Tokens = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_tokens),
    Takes(
        "one or two values, separated by a comma, each of at least 32 ASCII characters", secret=True
    ),
]
Keys = Annotated[
    dict[str, bytes],
    NoDecode,
    BeforeValidator(_keys),
    Takes(
        "id:key pairs separated by commas: distinct ids of 1 to 16 of a-z and 0-9, "
        "keys of 32 bytes in base64",
        secret=True,
    ),
]


def takes(field: FieldInfo) -> str:
    """What the variable of this field takes, as the end of a sentence."""
    metadata: list[Any] = field.metadata
    if words := next((one.words for one in metadata if isinstance(one, Takes)), None):
        return words
    if names := get_args(field.annotation):
        return f"{', '.join(names[:-1])} or {names[-1]}"
    kind = "a number" if field.annotation is float else "an integer"
    bounds = [
        words.format(getattr(one, bound))
        for bound, words in {"ge": "from {}", "gt": "above {}, up", "le": "to {}"}.items()
        for one in metadata
        if hasattr(one, bound)
    ]
    return " ".join([kind, *bounds])


def faults_of(settings: type[BaseSettings], error: ValidationError) -> list[str]:
    """A line for each variable that is refused: its name, its value, and what it takes."""
    faults: list[str] = []
    fields = {field.alias: field for field in settings.model_fields.values()}
    for fault in error.errors(include_url=False):
        name = str(fault["loc"][0])
        why = fault.get("ctx", {}).get("error")
        words = str(why) if isinstance(why, UnfitError) else takes(fields[name])
        if fault["type"] == "missing":
            faults.append(f"{name} is not set: takes {words}")
        else:
            value = "***" if is_secret(fields[name]) else _shown(str(fault["input"]))
            faults.append(f"{name}={value}: takes {words}")
    return faults


def _shown(value: str) -> str:
    """On one line, and without who logs in where it looks like an address that says so."""
    before, at, after = value.rpartition("@")
    if ":" in before:
        scheme = before[: before.find("//") + 2] if "//" in before else ""
        value = f"{scheme}***{at}{after}"
    return plain(value)


def is_secret(field: FieldInfo) -> bool:
    metadata: list[Any] = field.metadata
    return any(isinstance(one, Takes) and one.secret for one in metadata)


def unknown(settings: type[BaseSettings], names: Iterable[str]) -> list[str]:
    """A sentence for each variable that looks like one of ours and is none."""
    known = [str(field.alias) for field in settings.model_fields.values()]
    return [
        f"{plain(name)} is no setting of this release; {nearest(name, known)} is the nearest name"
        for name in sorted(names)
        if name.startswith(PREFIXES) and name not in known
    ]


def nearest(name: str, known: list[str]) -> str:
    return get_close_matches(name, known, n=1, cutoff=0)[0]
