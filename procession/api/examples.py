"""What bodies and answers look like, for the description: each body is sent by a test."""

from typing import Any

WHO = {"kind": "ApiKey", "id": "a1B2c3D4e5F6", "name": "Shop"}
WORKFLOW_ID = "0b9f6a52-6f0e-4f0c-9a55-1c1f0a6f2d11"
RUN_ID = "5f0c1d2e-8a4b-4c6d-9e0f-112233445566"
CREATED, CHANGED = "2026-11-30T08:06:00.000000Z", "2026-11-30T08:06:00.400000Z"

LIFECYCLE = {
    "statuses": ["Draft", "Published", "Archived"],
    "transitions": {"Approve": {"from": ["Draft"], "to": "Published"}},
}
WORKFLOW: dict[str, Any] = {
    "name": "Announce article",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published", "transition:Approve"],
    "conditions": {"Language": "en"},
    "enabled": True,
}
WEBHOOK: dict[str, Any] = {
    "type": "Webhook",
    "parameters": {"Url": "https://hooks.example.org/articles"},
    "onFailure": "Halt",
}
ENTRY: dict[str, Any] = {
    "id": "a-17",
    "contentType": "Article",
    "status": "Published",
    "sensitivity": "Public",
    "data": {"Title": "Hello", "Language": "en"},
    "version": 3,
    "createdAt": CREATED,
    "updatedAt": CHANGED,
    "createdBy": WHO,
    "updatedBy": WHO,
}
ATTEMPT: dict[str, Any] = {
    "attempt": 1,
    "startedAt": "2026-11-30T08:06:00.100000Z",
    "finishedAt": "2026-11-30T08:06:00.312000Z",
    "outcome": "Retried",
    "responseStatus": 503,
    "error": "HTTP 503",
    "retryable": True,
    "durationMs": 212,
}
ACTION: dict[str, Any] = {
    "ordinal": 0,
    "type": "Webhook",
    "onFailure": "Halt",
    "status": "Pending",
    "attempts": 1,
    "failures": 1,
    "nextAttemptAt": "2026-11-30T08:06:11.200000Z",
    "responseStatus": 503,
    "error": "HTTP 503",
    "retryable": None,
    "completedAt": None,
    "durationMs": 212,
    "haltedBy": None,
    "outputs": {},
    "compensation": None,
    "undo": None,
    "droppedAttempts": 0,
    "history": [ATTEMPT],
}
RUN: dict[str, Any] = {
    "id": RUN_ID,
    "workflowId": WORKFLOW_ID,
    "workflowName": "Announce article",
    "workflowVersion": 3,
    "entryId": "a-17",
    "contentType": "Article",
    "trigger": "Published",
    "status": "Pending",
    "waiting": {"reason": "RetryAt", "until": "2026-11-30T08:06:11.200000Z", "ordinal": 0},
    "depth": 0,
    "executor": None,
    "startedBy": None,
    "correlationId": "req-9",
    "createdAt": CREATED,
    "updatedAt": CHANGED,
    "completedAt": None,
    "cancelledAt": None,
    "abandonedAt": None,
    "compensation": None,
    "actions": [ACTION],
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "ContentTypeBody": {
        "fields": {
            "Title": {},
            "Language": {},
            "Price": {"type": "money", "sensitivity": "Sensitive"},
        },
        "lifecycle": LIFECYCLE,
    },
    "EntryBody": {"status": "Published", "data": {"Title": "Hello", "Language": "en"}},
    "EntryView": ENTRY,
    "SavedView": {
        "entry": ENTRY,
        "version": 3,
        "events": ["Updated", "Published"],
        "runIds": [RUN_ID],
        "warnings": [],
    },
    "WorkflowBody": WORKFLOW | {"actions": [WEBHOOK]},
    "WorkflowView": WORKFLOW
    | {
        "id": WORKFLOW_ID,
        "version": 3,
        "executor": None,
        "actions": [WEBHOOK | {"credentialsSet": ["Secret"], "capture": [], "compensate": None}],
        "createdAt": CREATED,
        "updatedAt": CHANGED,
    },
    "EnabledBody": {"enabled": False},
    "RunView": RUN,
    "ConnectorBody": {
        "name": "The ledger",
        "baseUrl": "https://ledger.example.org/v1",
        "auth": "BearerToken",
        "secrets": {"token": "t0p-s3cret"},
    },
    "RequestBody": {
        "name": "Book an invoice",
        "connectorSlug": "ledger",
        "pathTemplate": "/invoices/{{id}}",
        "bodyTemplate": '{"title": "{{data.Title}}"}',
    },
    "KeyBody": {"name": "Shop", "role": "Editor", "expiresAt": "2031-01-31T12:00:00Z"},
    "RoleBody": {"capabilities": ["view_workflow_runs", "read_entries"]},
    "TenantBody": {"name": "Acme", "timeZone": "Europe/Paris", "currency": "EUR"},
}
