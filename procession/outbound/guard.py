"""Where a call may go: the address as written, and every address that its name has.

The list is our own: what Python calls global lets through NAT64, 6to4 and more, which lead back
inside. A refusal names the host only. What is allowed all the same is the operator's word, meant
for development.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote

import httpx2 as httpx

from procession.outbound.faults import AddressRefused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

REFUSED_4 = tuple(
    IPv4Network(one)
    for one in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared, carrier NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # cloud platform service
        "169.254.0.0/16",  # link-local, metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relay
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmark
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
UNICAST = IPv6Network("2000::/3")  # all of IPv6 that is not refused whole
REFUSED_6 = tuple(
    IPv6Network(one)
    for one in (
        "2001::/23",  # Teredo, benchmark, ORCHID, drone ids
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
NAT64 = IPv6Network("64:ff9b::/96")
ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # the upper half of an interface id that embeds an IPv4 address

_NAME = re.compile(r"[a-z0-9._-]{1,255}", re.ASCII)
_ENDS_IN_A_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.ASCII)
_AUTHORITY = re.compile(r"[^:/?#]*://([^/?#]*)")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?", re.ASCII)  # behind the host
_AFTER_AUTHORITY = re.compile(r"[/?#]")
_LIKE_A_HOST = re.compile(r"\[[0-9a-fA-F:.%]{1,80}\]|[^\s:@/?#\[\]\\\x00-\x1f]{1,255}")
_HIGHEST_PORT = 65535
NO_HOST = "no host"
LONGEST_KEPT = 2_048  # so that what is kept stays small


@dataclass(frozen=True, slots=True)
class Target:
    """An address as written, taken apart; its name is not looked up yet."""

    scheme: bytes
    host: str  # lower case, punycode; an IPv6 address stands without brackets
    port: int
    authority: bytes  # as the Host header has it
    path: bytes  # with the query


def networks(text: str) -> tuple[Network, ...]:
    """Read a list of networks, comma separated; raises ValueError."""
    return tuple(ip_network(one.strip()) for one in text.split(","))


def target(url: str) -> Target:
    """Take an address apart; raises AddressRefused unless it is http or https to a plain host."""
    return _target_kept(url) if len(url) <= LONGEST_KEPT else _target(url)


def _target(url: str) -> Target:
    written = _AUTHORITY.match(url)
    authority = written[1] if written else ""
    try:
        read = httpx.URL(url)
        host = read.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError):
        raise AddressRefused(_plain(url)) from None
    port = _port(authority, 443 if read.scheme == "https" else 80)
    absolute = read.scheme in ("http", "https") and bool(host)
    if not absolute or "@" in authority or not _is_plain(host) or not port:
        raise AddressRefused(_plain(url))
    return Target(read.raw_scheme, host, port, read.netloc, read.raw_path)


_target_kept = lru_cache(maxsize=512)(_target)  # the same few are called again and again


def _port(authority: str, default: int) -> int | None:
    """The port in digits that everybody reads alike; None where there is no such port."""
    found = _PORT.fullmatch(authority)
    if found is None:
        return None
    port = int(found[1]) if found[1] else default
    return port if 0 < port <= _HIGHEST_PORT else None


def _is_plain(host: str) -> bool:
    """Whether it is a name, or an address in the one spelling that everybody reads alike."""
    if literal(host) is not None:
        return "%" not in host  # a zone is of this machine only
    return bool(_NAME.fullmatch(host)) and not _ENDS_IN_A_NUMBER.fullmatch(host)


def _plain(url: str) -> str:
    """The host of an address that may not even be read, without what could be a password.

    What stands behind a colon may be one too: that of an address with a slash in it. So may what
    stands before an @, however that is written.
    """
    written = _AUTHORITY.match(url)
    if written is None:
        return NO_HOST
    _, at, rest = unicodedata.normalize("NFKC", unquote(written[1])).rpartition("@")
    found = _LIKE_A_HOST.match(rest)
    is_clear = not at or "@" not in url[written.end() :]  # else the password may have a slash
    if not found or not is_clear or "%" in rest or not found[0].isprintable():
        return NO_HOST
    return found[0]


def origin(url: str) -> str:
    """Scheme, host and port of an address, and of one that is refused what the refusal says."""
    scheme, _, rest = url.partition("://")
    try:
        target(url)
    except AddressRefused as refused:
        known = scheme.lower() if scheme.lower() in ("http", "https") else ""
        return f"{known}://{refused.host if refused.host != NO_HOST else ''}"
    return f"{scheme}://{_AFTER_AUTHORITY.split(rest, 1)[0]}".lower()


def literal(host: str) -> Address | None:
    """The address that a host or an answer of the resolver spells; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_allowed_host(host: str, allowed: Iterable[Network]) -> bool:
    """Whether the operator has allowed what this host spells; of names, only this machine's own."""
    address = literal("127.0.0.1" if host == "localhost" else host)
    if address is None:
        return False
    address = unwrapped(address)
    return any(address in one for one in allowed if one.version == address.version)


@dataclass(frozen=True, slots=True)
class Guard:
    """Judges addresses. Names are judged by all the addresses that they have."""

    allowed: tuple[Network, ...] = ()

    def judge(self, host: str, addresses: Iterable[str]) -> list[str]:
        """The addresses to dial, in order; raises AddressRefused when any of them is refused."""
        judged: list[str] = []
        for one in addresses:
            address = literal(one)
            if address is None or (isinstance(address, IPv6Address) and address.scope_id):
                raise AddressRefused(host)
            address = unwrapped(address)
            if not self.permits(address):
                raise AddressRefused(host)
            judged.append(str(address))
        return judged

    def permits(self, address: Address) -> bool:
        """Whether this one address may be dialled; a mapped one must be unwrapped before."""
        if any(
            address in network for network in self.allowed if network.version == address.version
        ):
            return address not in NAT64 or self.permits(IPv4Address(int(address) & 0xFFFF_FFFF))
        return not is_denied(address)


def unwrapped(address: Address) -> Address:
    """An IPv4 address that is written as IPv6 is judged and dialled as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_denied(address: Address) -> bool:
    """Whether the list refuses it."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in REFUSED_4)
    if address not in UNICAST or (int(address) >> 32) & 0xFFFF_FFFF in ISATAP:
        return True
    return any(address in network for network in REFUSED_6)
