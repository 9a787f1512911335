"""Who may do what: capabilities, the roles that hold them, and the actor that a change names."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from procession.engine.errors import Fault

CAPABILITIES = (
    "manage_workflows",
    "run_workflows",
    "view_workflow_runs",
    "retry_workflow_actions",
    "manage_entries",
    "read_entries",
    "manage_connectors",
    "view_connectors",
    "view_webhook_response_bodies",
    "view_audit_log",
    "manage_access",
)
EVERYTHING = frozenset(CAPABILITIES)
ALL = "*"  # stands for every capability, those of later releases too

BUILT_IN: Mapping[str, frozenset[str]] = {
    "Admin": EVERYTHING - {"view_webhook_response_bodies"},
    "Editor": frozenset(
        {
            "manage_workflows",
            "run_workflows",
            "view_workflow_runs",
            "manage_entries",
            "read_entries",
        }
    ),
    "Operator": frozenset(
        {"view_workflow_runs", "retry_workflow_actions", "run_workflows", "read_entries"}
    ),
    "Viewer": frozenset({"view_workflow_runs", "read_entries"}),
}


class Grant(Struct, frozen=True):
    """A capability that came with a release, and what a role held that is given it, once."""

    name: str
    gives: str
    holds: str


GRANTS = (Grant("run-workflows-1", gives="run_workflows", holds="manage_workflows"),)


class ActorKind(StrEnum):
    API_KEY = "ApiKey"
    USER = "User"
    CONTROL = "Control"


class Actor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made a request. The email is for templates and is in no answer."""

    kind: ActorKind
    id: str
    name: str
    email: str | None = None


def effective(roles: Iterable[str], stored: Mapping[str, Collection[str]]) -> frozenset[str]:
    """What these roles hold together; `stored` has the tenant's own and what it added to others."""
    held: set[str] = set()
    for role in roles:
        held |= BUILT_IN.get(role, frozenset()) | set(stored.get(role, ()))
    return EVERYTHING if ALL in held else EVERYTHING & held


def unknown_capabilities(capabilities: Sequence[str]) -> list[Fault]:
    known = f"is not one of {', '.join(CAPABILITIES)} or {ALL}"
    return [
        Fault(f"capabilities[{index}]", known)
        for index, one in enumerate(capabilities)
        if one != ALL and one not in EVERYTHING
    ]
