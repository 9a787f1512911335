"""Help with writing a workflow: the action types, the names for templates, a check by itself."""

from typing import Annotated

from fastapi import Query

from procession.api.body import takes
from procession.api.deps import Database
from procession.api.routes import api_router, needs
from procession.api.shapes import Answer, Warned, warned
from procession.api.workflow_body import Around, First, WorkflowBody
from procession.engine.catalogue import ActionType, Repeatable
from procession.engine.content_type import Sensitivity
from procession.engine.errors import NotFoundError
from procession.engine.findings import told_faults
from procession.engine.scope import ENTRY_NAMES, LINKS, TRANSITION_NAMES
from procession.queue import runs

router = api_router("workflows")
MANAGE = [needs("manage_workflows")]


class Refused(Answer):
    """One thing wrong with what was sent."""

    name: str
    reason: str


class Verdict(Answer):
    """Whether a workflow could be saved."""

    is_valid: bool
    errors: list[Refused]
    warnings: list[Warned]


@router.post("/workflows/validate", dependencies=MANAGE, openapi_extra=takes(WorkflowBody))
async def validate_workflow(found: First) -> Verdict:
    """Say what a save would say, and save nothing."""
    return Verdict(
        is_valid=not found.faults,
        errors=[Refused(name=one.name, reason=one.reason) for one in told_faults(found.faults)],
        warnings=warned(found.warnings),
    )


class ParameterView(Answer):
    """What a definition gives to an action."""

    name: str
    required: bool
    credential: bool
    description: str
    example: str


class ActionTypeView(Answer):
    """An action type."""

    type: str
    description: str
    repeatable: Repeatable
    outputs: list[str]
    parameters: list[ParameterView]
    served: bool


@router.get("/workflows/actions", dependencies=MANAGE)
async def list_action_types(around: Around, conn: Database) -> list[ActionTypeView]:
    """The action types, and whether a live worker serves them."""
    workers = await runs.live_workers(conn)
    served = frozenset[str]().union(*(one.action_types for one in workers))
    types = sorted(around.catalogue.types.items())
    return [type_view(name, one, served=name in served) for name, one in types]


def type_view(name: str, one: ActionType, *, served: bool) -> ActionTypeView:
    return ActionTypeView(
        type=name,
        description=one.description,
        repeatable=one.repeatable,
        outputs=list(one.outputs),
        parameters=[
            ParameterView(
                name=parameter.name,
                required=parameter.required,
                credential=one.is_credential(parameter.name),
                description=parameter.description,
                example=parameter.example,
            )
            for parameter in one.parameters
        ],
        served=served,
    )


class Names(Answer):
    """What templates may use."""

    names: list[str]


@router.get("/workflows/variables", dependencies=MANAGE)
async def list_variables(
    around: Around, content_type: Annotated[str | None, Query(alias="contentType")] = None
) -> Names:
    """The names that a template gets a value for, with the fields of a content type."""
    names = [*ENTRY_NAMES, *(f"transition.{name}" for name in TRANSITION_NAMES)]
    names += [f"links.{name}" for name in LINKS]
    if content_type is not None:
        declared = around.content_types.get(content_type)
        if declared is None:
            raise NotFoundError("content type")
        names += [
            f"data.{name}"
            for name, field in declared.fields.items()
            if field.sensitivity is not Sensitivity.HIDDEN
        ]
    return Names(names=names)
