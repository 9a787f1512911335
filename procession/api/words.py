"""What the description says in prose: of the API as a whole, its credentials and its parameters."""

from typing import Any

ABOUT = """\
Procession runs what must happen after something changed. An application saves its **entries**; a
**workflow** says what follows which event; a **run** performs its actions, retries what can be
retried, and keeps what came of each attempt.

* Bodies are JSON in UTF-8, with names in camelCase; times are RFC 3339 in UTC. What a body
  or a query has and is not named here is ignored; only a command for many runs is refused with it.
* Every refusal is `application/problem+json` with a `code` that never changes its meaning. Each
  operation lists the codes that it may answer.
* Everything belongs to the tenant of the caller. What belongs to another does not exist.
* On any POST, `Idempotency-Key` makes a repeat safe.
* `X-Correlation-ID` and `traceparent` are kept on the runs that a request fires, and sent on.
"""

TAGS: list[dict[str, Any]] = [
    {"name": "content types", "description": "What an application declares of its entries."},
    {"name": "entries", "description": "The application's records. A change queues runs."},
    {"name": "workflows", "description": "What follows which event. Each change is a version."},
    {"name": "runs", "description": "What came of an event, and what a person may do to it."},
    {"name": "deliveries", "description": "What went out to receivers, and what they answered."},
    {"name": "connectors", "description": "Where requests go, with their credentials."},
    {"name": "access", "description": "Keys, roles and tenants."},
    {"name": "audit", "description": "Who changed what, and when."},
    {"name": "health", "description": "Whether the process answers, and can do its work."},
]

SECURITY: dict[str, dict[str, str]] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "prc_<id>_<secret>",
        "description": "An API key. It names its tenant, and its role says what it may do.",
    },
    "control": {
        "type": "http",
        "scheme": "bearer",
        "description": "A value of CONTROL_TOKEN: everything, in every tenant. X-Actor-Id,"
        " X-Actor-Name and X-Actor-Email name the person that it is used for.",
    },
    "tenant": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Tenant",
        "description": "The slug of the tenant that a holder of the control token means.",
    },
    "oidc": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the issuer that AUTH__OIDC__ISSUER names.",
    },
}

PARAMETERS: dict[str, str] = {
    "page": "Which part of the list, from 1.",
    "pageSize": "How many items a page has.",
    "slug": "The name in addresses: small letters, digits and dashes.",
    "contentType": "The name of a content type.",
    "ordinal": "The position of the action in the run, from 0.",
    "version": "The number of the version, from 1.",
    "workflowId": "Only of this workflow.",
    "entryId": "Only of the entry with this id.",
    "runId": "Only of this run.",
    "targetId": "Only of what was done to the thing with this id.",
    "action": "Only entries of this name, such as `workflow.created`.",
    "from": "Only at or after this time.",
    "to": "Only at or before this time.",
    "changedSince": "A time, or the `cursor` of an earlier answer: what changed after it, in the"
    " order it did.",
    "status": "Only in this status.",
    "windowDays": "Over how many days; cut to what is kept, as the answer says.",
}
