"""Bounds of bodies that are looked at by hand, as the description says them.

What reads a body (the engine, for most of them) tells every fault by its place. Here is only what a
schema can say of the same rules, so that whoever generates a client, or a form, knows them before.
"""

from collections.abc import Mapping
from typing import Any

from procession.engine.access import CAPABILITIES

NAME = "^[A-Za-z][A-Za-z0-9_]{0,63}$"
SLUG = "^[a-z0-9][a-z0-9-]{0,39}$"
TITLE = {"minLength": 1, "maxLength": 200, "pattern": r"\S"}

BOUNDS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "WorkflowBody": {
        "name": TITLE,
        "triggerContentTypes": {
            "minItems": 1,
            "maxItems": 50,
            "items": {"type": "string", "pattern": NAME},
        },
        "triggerEvents": {"minItems": 1, "maxItems": 20},
        "actions": {"minItems": 1, "maxItems": 50},
    },
    "ConnectorBody": {"name": TITLE, "baseUrl": {"format": "uri"}},
    "RequestBody": {
        "name": TITLE,
        "connectorSlug": {"pattern": SLUG},
        "pathTemplate": {"pattern": "^/"},
    },
    "RoleBody": {
        "capabilities": {"items": {"type": "string", "enum": [*sorted(CAPABILITIES), "*"]}}
    },
    "TenantBody": {"name": TITLE, "currency": {"pattern": "^[A-Z]{3}$"}},
    "KeyBody": {"name": TITLE},
}
