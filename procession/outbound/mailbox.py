"""One person's address, as a workflow or a setting writes it.

Values of entries end up in it, so it is read strictly: what could name a second recipient, or end
the header that it stands in, is no address.
"""

import re
from dataclasses import dataclass
from email.headerregistry import Address

LONGEST = 254  # of an address, as a relay takes it
LONGEST_LOCAL = 64

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*", re.ASCII)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII | re.IGNORECASE)
# controls, lone surrogates, line separators
_BREAKING = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address, and the name shown for it."""

    local: str
    domain: str
    name: str = ""

    @property
    def address(self) -> str:
        return f"{self.local}@{self.domain}"

    def __str__(self) -> str:
        return str(Address(self.name, self.local, self.domain))


def mailbox(text: str) -> Mailbox:
    """Read exactly one address, with or without a name before it; raises ValueError."""
    if on_one_line(text) != text or "," in text or ";" in text:
        raise ValueError
    name, opener, address = text.strip().rpartition("<")
    if opener and not address.endswith(">"):
        raise ValueError
    local, _, domain = address.removesuffix(">" if opener else "").rpartition("@")
    domain = _ascii(domain)
    if not _LOCAL.fullmatch(local) or not _DOMAIN.fullmatch(domain):
        raise ValueError
    if len(local) > LONGEST_LOCAL or len(local) + 1 + len(domain) > LONGEST:
        raise ValueError
    return Mailbox(local, domain, _shown(name.strip()))


def _ascii(domain: str) -> str:
    """A name of another script in the letters that every relay knows."""
    if domain.isascii() or len(domain) > LONGEST:
        return domain
    return domain.encode("idna").decode()


def _shown(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if set('<>@"\\') & set(name) or "=?" in name:  # which begins what is encoded
        raise ValueError
    return name


def on_one_line(text: str) -> str:
    """The text with a space for all that could end a line or is no text."""
    return _BREAKING.sub(" ", text)
