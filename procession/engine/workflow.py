"""A workflow's definition, as its versions keep it: immutable, and read by each run of it."""

from enum import StrEnum

from msgspec import Struct


class OnFailure(StrEnum):
    """What a failure of the action means for the ones after it."""

    CONTINUE = "Continue"
    HALT = "Halt"


class Compensate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The action that takes another one back."""

    type: str
    parameters: dict[str, str] = {}


class ActionDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step, known by its position."""

    type: str
    parameters: dict[str, str] = {}
    on_failure: OnFailure = OnFailure.CONTINUE
    capture: tuple[str, ...] = ()
    compensate: Compensate | None = None


class Definition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one version of a workflow says. The order of the conditions' keys is kept."""

    name: str
    trigger_content_types: tuple[str, ...]
    trigger_events: tuple[str, ...]
    actions: tuple[ActionDefinition, ...]
    conditions: dict[str, str] = {}
    executor: str | None = None
