"""A workflow on the wire. Credentials are left out of the parameters and listed by name."""

from collections.abc import Sequence
from uuid import UUID

from pydantic import Field

from procession.api.shapes import Answer, Time, Warned, warned
from procession.engine.catalogue import Catalogue
from procession.engine.credentials import shown
from procession.engine.errors import Concern
from procession.engine.workflow import ActionDefinition, Compensate, OnFailure
from procession.queue.workflows import Workflow


def is_none(value: object) -> bool:
    return value is None


class CompensateView(Answer):
    """The action that takes another one back."""

    type: str
    parameters: dict[str, str]
    credentials_set: list[str]


class WorkflowActionView(Answer):
    """An action of a workflow."""

    type: str
    parameters: dict[str, str]
    credentials_set: list[str]
    unreadable_branches: list[str] | None = Field(None, exclude_if=is_none)
    on_failure: OnFailure
    capture: list[str]
    compensate: CompensateView | None


class WorkflowView(Answer):
    """A workflow at one of its versions."""

    id: UUID
    name: str
    version: int
    enabled: bool
    executor: str | None
    trigger_content_types: list[str]
    trigger_events: list[str]
    conditions: dict[str, str]
    actions: list[WorkflowActionView]
    created_at: Time
    updated_at: Time
    warnings: list[Warned] | None = Field(None, exclude_if=is_none)  # of a save only


def workflow_view(
    workflow: Workflow, catalogue: Catalogue, concerns: Sequence[Concern] | None = None
) -> WorkflowView:
    """The workflow as answers show it."""
    definition = workflow.definition
    return WorkflowView(
        id=workflow.id,
        name=definition.name,
        version=workflow.version,
        enabled=workflow.enabled,
        executor=definition.executor,
        trigger_content_types=list(definition.trigger_content_types),
        trigger_events=list(definition.trigger_events),
        conditions=definition.conditions,
        actions=[action_view(one, catalogue) for one in definition.actions],
        created_at=workflow.created_at,
        updated_at=workflow.updated_at,
        warnings=None if concerns is None else warned(concerns),
    )


def action_view(action: ActionDefinition, catalogue: Catalogue) -> WorkflowActionView:
    told = shown(action, catalogue)
    return WorkflowActionView(
        type=action.type,
        parameters=told.parameters,
        credentials_set=list(told.credentials),
        unreadable_branches=list(told.unreadable) or None,
        on_failure=action.on_failure,
        capture=list(action.capture),
        compensate=compensate_view(action.compensate, catalogue),
    )


def compensate_view(action: Compensate | None, catalogue: Catalogue) -> CompensateView | None:
    if action is None:
        return None
    told = shown(action, catalogue)
    return CompensateView(
        type=action.type, parameters=told.parameters, credentials_set=list(told.credentials)
    )
