"""A connector as it was sent: everything wrong with it at once, by path."""

import re
from collections.abc import Callable, Mapping
from typing import cast

from procession.engine.connector import (
    LONGEST_SECRET,
    LONGEST_TEXT,
    OFF,
    OPTIONAL,
    SECRETS,
    SETTINGS,
    Auth,
    ClientAuth,
    Connector,
    Sent,
    has_dots,
    is_header_name,
    is_sendable,
    origin,
)
from procession.engine.errors import Fault, ValidationFailedError
from procession.engine.findings import Findings

_PATH = re.compile(r"/[!-~]*", re.ASCII)


def parse_connector(body: object, is_near: Callable[[str], bool]) -> Sent:
    """What the body says; raises ValidationFailedError with every fault of it.

    `is_near` says of a host whether the operator allows it, and so http to it.
    """
    if not isinstance(body, dict):
        raise ValidationFailedError([Fault("body", "must be an object")])
    reader, root = _Reader(is_near), cast("dict[str, object]", body)
    found = reader.found
    auth = reader.auth(root.get("auth"))
    connector = Connector(
        name=reader.found.name(root.get("name")),
        base_url=reader.address(root.get("baseUrl"), "baseUrl"),
        auth=auth,
        settings=reader.settings(found.properties(root.get("settings"), "settings"), auth),
        enabled=reader.enabled(root.get("enabled")),
        probe_path=reader.path(root.get("probePath")),
    )
    header = connector.idempotency_header
    if header and connector.settings.get("headerName", "").lower() == header.lower():
        found.refuse("settings.headerName", f"must not be {header}, which carries the action's key")
    given = reader.secrets(found.properties(root.get("secrets"), "secrets"), auth)
    if found.faults:
        raise ValidationFailedError(found.faults)
    return Sent(connector, given)


class _Reader:
    """One walk over a body that notes everything that is wrong with it."""

    def __init__(self, is_near: Callable[[str], bool]) -> None:
        self._is_near = is_near
        self.found = Findings()

    def auth(self, value: object) -> Auth:
        if value in tuple(Auth):
            return Auth(cast("str", value))
        self.found.refuse("auth", f"must be one of {', '.join(Auth)}")
        return Auth.NONE

    def enabled(self, value: object) -> bool:
        if value is not None and not isinstance(value, bool):
            self.found.refuse("enabled", "must be true or false")
        return value is not False

    def path(self, value: object) -> str:
        path = "/" if value is None else value
        is_path = isinstance(path, str) and _PATH.fullmatch(path) and len(path) <= LONGEST_TEXT
        if isinstance(path, str) and is_path and "#" not in path and not has_dots(path):
            return path
        self.found.refuse("probePath", "must be a path that begins with / and leads nowhere up")
        return "/"

    def address(self, value: object, path: str, *, query: bool = False) -> str:
        """An absolute address without what a base cannot have."""
        where = origin(value) if isinstance(value, str) and len(value) <= LONGEST_TEXT else None
        if not isinstance(value, str) or where is None or has_dots(value.partition("://")[2]):
            self.found.refuse(path, "must be an absolute https address, its host in ASCII")
        elif "#" in value or ("?" in value and not query):
            self.found.refuse(path, "must have no query and no fragment")
        elif where[0] != "https" and not self._is_near(where[1].strip("[]")):
            self.found.refuse(
                path, "must be https: http is for hosts in OUTBOUND__ALLOWED_NETWORKS"
            )
        else:
            return value
        return ""

    def settings(self, given: Mapping[str, object], auth: Auth) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name in SETTINGS[auth]:
            if text := self.setting(given.get(name), name):
                kept[name] = text
        header = given.get("idempotencyHeader")
        if header is not None:
            is_good = isinstance(header, str) and is_header_name(header)
            if not is_good or cast("str", header).lower() == "authorization":
                self.found.refuse("settings.idempotencyHeader", f"must be a header name, or {OFF}")
            else:
                kept["idempotencyHeader"] = cast("str", header)
        return kept

    def setting(self, value: object, name: str) -> str | None:
        path = f"settings.{name}"
        if value is None and name in OPTIONAL:
            return None
        if name == "tokenUrl":
            return self.address(value, path, query=True)
        if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT or not value.strip():
            self.found.refuse(path, f"must be text of 1 to {LONGEST_TEXT} characters")
        elif name == "headerName" and not is_header_name(value):
            self.found.refuse(path, "must be the name of a header that is not the client's to set")
        elif name == "username" and ":" in value:
            self.found.refuse(path, "must have no colon, which ends it where it is sent")
        elif name == "clientAuth" and value not in tuple(ClientAuth):
            self.found.refuse(path, f"must be {' or '.join(ClientAuth)}")
        else:
            return value
        return None

    def secrets(self, given: Mapping[str, object], auth: Auth) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name in SECRETS[auth]:
            value = given.get(name)
            if value is None:
                continue
            text = value.strip() if isinstance(value, str) else None
            if text is None or len(text) > LONGEST_SECRET:
                self.found.refuse(
                    f"secrets.{name}", f"must be text of at most {LONGEST_SECRET} characters"
                )
            elif text and name in ("token", "apiKey") and not is_sendable(text):
                self.found.refuse(
                    f"secrets.{name}", "must be what a header may hold: printable ASCII"
                )
            else:
                kept[name] = text
        return kept
