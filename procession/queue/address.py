"""Whether a URL is one that libpq can ever connect by, told without a part of it.

Who writes a password into a URL as it is gives some of it away as a host, a port or a database,
which are printed: so an `@` that is not where libpq looks for it is a fault. What values its
options may have libpq says itself, of a server that is nowhere: it looks at them all first.
"""

import re
from ipaddress import ip_address

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn

FORM = "a postgresql:// URL"
ENCODED = (
    f"{FORM}, in which characters of the password such as @, / and % must be percent-encoded "
    "(%40, %2F, %25)"
)
NOWHERE = "/dev/null"  # a folder of sockets that nobody can make
# What it says once there is nothing left to find fault with.
CONNECTING = ("connection to server ", "GSSAPI encryption required but it is not supported over a")
# Looked at only when it connects over a network.
INTEGERS = (
    *("connect_timeout", "tcp_user_timeout", "keepalives"),
    *("keepalives_idle", "keepalives_interval", "keepalives_count"),
)

Given = dict[str, str]


def unfit(text: str) -> str | None:
    """What it takes, when this cannot be connected by; None when it can."""
    scheme, _, rest = text.partition("://")
    if scheme not in {"postgresql", "postgres"} or "://" not in text:
        return FORM
    before, at, after = rest.partition("@")  # as libpq finds who connects
    if "@" in (after if at and "/" not in before else rest):
        return ENCODED
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except ProgrammingError as error:
        return ENCODED if "percent-encoded" in str(error) else FORM
    return _of_options(given)


def _of_options(given: Given) -> str | None:
    if _is_taken(given):
        return None
    wrong = [name for name in given if not _is_taken({name: given[name]})]
    which = " and ".join(wrong) if wrong else "options together"
    return f"{FORM} that can be connected by: Postgres takes no such {which}"


def _is_taken(given: Given) -> bool:
    hosts = given.get("host", "").split(",")
    addresses = given.get("hostaddr", "").split(",")
    if given.get("hostaddr") and given.get("host") and len(hosts) != len(addresses):
        return False
    if not all(_is_ip(one) for one in addresses if one):
        return False
    if not all(re.fullmatch(r"\s*-?\d{1,9}\s*", given.get(one) or "0") for one in INTEGERS):
        return False
    places = max(len(hosts), len(addresses))
    if list(given) == ["port"]:  # by itself it may be for any number of them
        places = len(given["port"].split(","))
    return _is_begun(given | {"host": ",".join([NOWHERE] * places), "hostaddr": ""})


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_begun(given: Given) -> bool:
    conn = PGconn.connect_start(make_conninfo(**given).encode())
    try:
        return conn.error_message.decode(errors="replace").startswith(CONNECTING)
    finally:
        conn.finish()
