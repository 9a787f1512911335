"""What a route may refuse, for the description: by operation, beside what every route may.

An operation that has no line here, or that answers with a code beyond its line, fails the tests: a
caller can rely on it.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby

from procession.engine import errors
from procession.engine.conflicts import CONFLICTS
from procession.engine.errors import ConflictError, NotFoundError, ProcessionError

# Whatever the route, once the path is one of ours.
ALWAYS = (
    "malformed-request",
    "validation-failed",
    "tenant-required",
    "unauthenticated",
    "forbidden",
    "tenant-mismatch",
    "tenant-not-found",
    "body-too-large",
    "unsupported-media-type",
    "too-many-attempts",
    "headers-too-large",
    "internal-error",
    "database-unavailable",
    "identity-provider-unavailable",
)
WITH_A_BODY = ("malformed-json", "body-too-slow")
KEYED = (
    "idempotency-key-in-progress",
    "idempotency-answer-too-long",
    "idempotency-key-reused",
)

OF: Mapping[str, str] = {
    "read_me": "",
    "create_key": "",
    "list_keys": "",
    "revoke_key": "key-not-found",
    "list_roles": "",
    "save_role": "",
    "delete_role": "role-not-found role-in-use role-built-in",
    "list_tenants": "",
    "read_tenant": "",
    "save_tenant": "",
    "save_content_type": "",
    "read_content_type": "content-type-not-found",
    "delete_content_type": "content-type-not-found content-type-in-use",
    "list_content_types": "",
    "save_entry": "content-type-not-found version-mismatch",
    "delete_entry": "entry-not-found version-mismatch",
    "read_entry": "entry-not-found",
    "perform_transition": (
        "entry-not-found transition-not-found transition-not-allowed version-mismatch"
    ),
    "list_entries": "content-type-not-found",
    "save_connector": "",
    "read_connector": "connector-not-found",
    "delete_connector": "connector-not-found connector-in-use",
    "list_connectors": "",
    "test_connector": "connector-not-found connector-disabled",
    "save_request": "",
    "read_request": "request-not-found",
    "delete_request": "request-not-found",
    "list_requests": "",
    "validate_workflow": "",
    "list_action_types": "",
    "list_variables": "content-type-not-found",
    "create_workflow": "",
    "list_workflows": "",
    "read_workflow": "workflow-not-found",
    "replace_workflow": "workflow-not-found version-mismatch",
    "delete_workflow": "workflow-not-found too-many-queued-runs",
    "read_version": "workflow-not-found version-not-found",
    "switch_workflow": "workflow-not-found",
    "run_workflow": "workflow-not-found entry-not-found workflow-disabled conditions-not-met",
    "list_workflow_health": "",
    "dry_run_workflow": "",
    "list_runs": "",
    "get_run": "run-not-found",
    "cancel_run": "run-not-found run-finished run-changed",
    "abandon_run": (
        "run-not-found run-rolled-back run-cancelled action-in-flight nothing-succeeded"
        " everything-succeeded workflow-deleted workflow-disabled run-changed"
    ),
    "force_end_run": "run-not-found run-finished run-changed",
    "retry_action": (
        "run-not-found action-not-found run-rolled-back run-cancelled action-succeeded"
        " action-in-flight action-skipped-behind-halt workflow-deleted workflow-disabled"
        " run-changed"
    ),
    "bulk_retry": "too-many-bulks",
    "bulk_cancel": "too-many-bulks",
    "bulk_abandon": "too-many-bulks",
    "list_bulks": "",
    "read_bulk": "bulk-not-found",
    "stop_bulk": "bulk-not-found bulk-finished",
    "list_deliveries": "",
    "list_audit_entries": "",
}

# What some codes say besides, as an example.
MORE: Mapping[str, Mapping[str, object]] = {
    "forbidden": {"capability": "manage_workflows"},
    "action-skipped-behind-halt": {"haltedBy": 0},
    "too-many-queued-runs": {"queuedRuns": 2400},
    "conditions-not-met": {"condition": "Language"},
    "transition-not-allowed": {"from": ["Review"]},
    "version-mismatch": {"version": 4},
    "idempotency-answer-too-long": {
        "answered": 201,
        "location": "/api/workflows/0b9f6a52-6f0e-4f0c-9a55-1c1f0a6f2d11",
    },
    "validation-failed": {
        "detail": "What was sent has faults.",
        "errors": [{"name": "actions[0].parameters.Url", "reason": "is required"}],
    },
}


def _classes(base: type[ProcessionError] = ProcessionError) -> Iterable[type[ProcessionError]]:
    yield base
    for one in base.__subclasses__():
        yield from _classes(one)


PLAIN = {
    one.code: one
    for one in _classes()
    if one not in {ConflictError, NotFoundError} and one.__module__ == errors.__name__
}


def status_and_title(code: str) -> tuple[int, str]:
    """What is fixed for a code."""
    if code in PLAIN:
        kind = PLAIN[code]
        return kind.status, (kind.__doc__ or "").removesuffix(".")
    if code in CONFLICTS:
        return ConflictError.status, CONFLICTS[code]
    assert code.endswith("-not-found"), code
    found = NotFoundError(code.removesuffix("-not-found").replace("-", " "))
    return found.status, found.title


def by_status(codes: Iterable[str]) -> list[tuple[int, list[str]]]:
    """The codes under their statuses, in the order of the statuses."""
    ordered = sorted(dict.fromkeys(codes), key=lambda code: status_and_title(code)[0])
    grouped = groupby(ordered, key=lambda code: status_and_title(code)[0])
    return [(status, list(found)) for status, found in grouped]


def example(code: str) -> dict[str, object]:
    """A problem with this code."""
    status, title = status_and_title(code)
    return {
        "type": f"urn:procession:problem:{code}",
        "title": title,
        "status": status,
        "detail": None,
        "instance": "/api/…",
        "code": code,
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        **MORE.get(code, {}),
    }
