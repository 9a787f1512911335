"""What Procession answers with. What a newer release says besides is left out."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")


class Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer, or a part of one."""


class Fault(Shape, frozen=True, kw_only=True):
    """One thing wrong with what was sent."""

    name: str
    reason: str


class Problem(Shape, frozen=True, kw_only=True):
    """What every refusal says. Some say more."""

    type: str
    title: str
    code: str
    detail: str | None = None
    trace_id: str | None = None
    errors: list[Fault] | None = None


class Actor(Shape, frozen=True, kw_only=True):
    kind: str
    id: str
    name: str


class Warned(Shape, frozen=True, kw_only=True):
    """What was saved all the same, and may not be what was meant."""

    field: str
    message: str


class Page(Shape, Generic[Item], frozen=True, kw_only=True):
    """Part of a list."""

    items: list[Item]
    page: int
    page_size: int
    total_items: int
    total_pages: int
    has_next_page: bool
    has_previous_page: bool


class Attempt(Shape, frozen=True, kw_only=True):
    attempt: int
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    response_status: int | None
    error: str | None
    retryable: bool | None
    duration_ms: int | None


class Undo(Shape, frozen=True, kw_only=True):
    type: str
    attempts: int
    failures: int
    next_attempt_at: datetime | None
    response_status: int | None
    error: str | None
    retryable: bool | None
    completed_at: datetime | None
    duration_ms: int | None
    dropped_attempts: int
    history: list[Attempt]


class RunAction(Shape, frozen=True, kw_only=True):
    ordinal: int
    type: str
    on_failure: str
    status: str
    attempts: int
    failures: int
    next_attempt_at: datetime | None
    response_status: int | None
    error: str | None
    retryable: bool | None
    completed_at: datetime | None
    duration_ms: int | None
    halted_by: int | None
    outputs: dict[str, str]
    compensation: str | None
    undo: Undo | None
    dropped_attempts: int
    history: list[Attempt]


class Waiting(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Why a run waits."""

    reason: str
    until: datetime | None = None
    ordinal: int | None = None
    action_type: str | None = None


class Run(Shape, frozen=True, kw_only=True):
    id: str
    workflow_id: str
    workflow_name: str
    workflow_version: int
    entry_id: str
    content_type: str
    trigger: str
    status: str
    waiting: Waiting | None
    depth: int
    executor: str | None
    started_by: Actor | None
    correlation_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    cancelled_at: datetime | None
    abandoned_at: datetime | None
    compensation: str | None
    actions: list[RunAction]


class RunPage(Page[Run], frozen=True, kw_only=True):
    """Part of the list of runs. `cursor` is where to go on, of runs that changed."""

    cursor: str | None
    status_counts: dict[str, int] | None
    succeeded_retained_from: datetime | None
    failed_retained_from: datetime | None


class Workflow(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow. `actions` are as they are sent back: plain objects."""

    id: str
    name: str
    version: int
    enabled: bool
    executor: str | None
    trigger_content_types: list[str]
    trigger_events: list[str]
    conditions: dict[str, str]
    actions: list[dict[str, Any]]
    created_at: datetime
    updated_at: datetime
    warnings: list[Warned] | None = None


class Started(Shape, frozen=True, kw_only=True):
    """A run that was started by hand."""

    run_id: str
    repeated: bool = False


class Entry(Shape, frozen=True, kw_only=True):
    id: str
    content_type: str
    status: str
    sensitivity: str
    data: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    created_by: Actor
    updated_by: Actor


class Fired(Shape, frozen=True, kw_only=True):
    """The events of a change, and the runs that they queued."""

    events: list[str]
    run_ids: list[str]


class Saved(Fired, frozen=True, kw_only=True):
    """An entry after a change."""

    entry: Entry
    version: int
    warnings: list[Warned]


class Counted(Shape, frozen=True, kw_only=True):
    matched: int


class Bulk(Shape, frozen=True, kw_only=True):
    """A verb for many runs, and how far it has come."""

    id: str
    verb: str
    unknown: bool
    filter: dict[str, Any]
    status: str
    matched: int
    done: int
    changed: int
    unchanged: int
    refused: dict[str, int]
    asked_by: Actor | None
    created_at: datetime
    finished_at: datetime | None
