"""How what leaves by email, text message and Vercel is written in an environment variable."""

import re
from typing import Annotated

from pydantic import BeforeValidator

from procession.app.environment import Takes
from procession.outbound.guard import literal
from procession.outbound.mailbox import mailbox

_RELAY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_SECRET = re.compile(r"[!-~]{1,512}", re.ASCII)
SHORTEST = 16  # characters of a scrape key
_SENDER = re.compile(r"\+[1-9][0-9]{1,14}|[A-Za-z0-9](?:[A-Za-z0-9 ._&+-]{0,33})", re.ASCII)


def _mailbox(value: str) -> str:
    return str(mailbox(value))


def _relay(value: str) -> str:
    return _like(_RELAY, value) if literal(value) is None else value


def _secret(value: str) -> str:
    return _like(_SECRET, value)


def _scrape_key(value: str) -> str:
    if len(value) < SHORTEST or value != value.strip():
        raise ValueError
    return _text(value)


def _id(value: str) -> str:
    return _like(_ID, value)


def _sender(value: str) -> str:
    return _like(_SENDER, value)


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError
    return value


def _like(pattern: re.Pattern[str], value: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError
    return value


OneAddress = Annotated[
    str,
    BeforeValidator(_mailbox),
    Takes("one address, such as desk@example.com or Desk <desk@example.com>"),
]
RelayHost = Annotated[
    str, BeforeValidator(_relay), Takes("a host, such as smtp.example.com or an IP address")
]
Username = Annotated[str, BeforeValidator(_text), Takes("text on one line")]
Password = Annotated[str, BeforeValidator(_text), Takes("text on one line", secret=True)]
ApiKey = Annotated[
    str,
    BeforeValidator(_secret),
    Takes("up to 512 ASCII characters without spaces", secret=True),
]
ScrapeKey = Annotated[
    str, BeforeValidator(_scrape_key), Takes("text of at least 16 characters", secret=True)
]
Id = Annotated[str, BeforeValidator(_id), Takes("up to 128 letters, digits, dots, - and _")]
TextSender = Annotated[
    str,
    BeforeValidator(_sender),
    Takes("a number such as +639171234567, the name of a sender, or the MG id of a service"),
]
