"""Nothing leaves but by the one client, which is behind the guard, and by the operator's relay."""

import ast
from pathlib import Path

import procession

ROOT = Path(procession.__file__).parent
# What can open a connection, and the modules that may: to look up and dial, and to listen.
REACHING = {
    *("socket", "socketserver", "ssl", "http.client", "urllib.request", "urllib3", "xmlrpc"),
    *("smtplib", "ftplib", "imaplib", "poplib", "nntplib", "telnetlib"),
    *("requests", "aiohttp", "httpx", "httpcore", "httpx2", "httpcore2", "aiosmtplib"),
}
MAY_IMPORT = {
    "socket": {"outbound/resolve.py", "outbound/smtp.py", "app/server.py"},
    "ssl": {
        *("outbound/http.py", "outbound/connections.py", "outbound/stream.py", "outbound/smtp.py"),
        *("outbound/smtp_session.py", "testing/calls.py"),
    },
    # the client's calls are those of its user, from elsewhere
    "httpx2": {"outbound/guard.py", "outbound/answer.py", "client/calls.py"},
    "httpcore2": {
        *("outbound/http.py", "outbound/connections.py", "outbound/stream.py"),
        *("outbound/answer.py", "outbound/call.py", "outbound/capture.py"),
    },
    "aiosmtplib": {"outbound/smtp.py", "outbound/smtp_session.py"},
}
DIALS = {"create_connection", "open_connection", "sock_connect", "connect_ex", "getaddrinfo"}
MAY_DIAL = {
    "create_connection": {"outbound/stream.py"},
    "sock_connect": {"outbound/smtp.py"},
    "getaddrinfo": {"outbound/resolve.py"},
}
OF_HTTPX = {"URL", "InvalidURL", "Headers"}  # addresses and headers are read by it, and no more


def modules():
    for path in ROOT.rglob("*.py"):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def reaching(name):
    return next((one for one in REACHING if name == one or name.startswith(f"{one}.")), None)


def used(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_what_can_open_a_connection_is_imported_where_it_must_be_and_nowhere_else():
    found = {}
    for path, tree in modules():
        for name in filter(None, map(reaching, imported(tree))):
            found.setdefault(name, set()).add(path)

    assert found == MAY_IMPORT


def test_connections_are_opened_where_they_are_judged():
    found = {}
    for path, tree in modules():
        for name in DIALS & used(tree):
            found.setdefault(name, set()).add(path)

    assert found == MAY_DIAL


def test_no_client_of_httpx_is_made():
    for path, tree in modules():
        if path in MAY_IMPORT["httpx2"]:
            of_it = {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "httpx"
            }
            assert of_it <= OF_HTTPX, path
