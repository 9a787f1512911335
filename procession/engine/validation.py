"""Whether a workflow can be saved as it was sent: everything wrong with it at once, by path.

A fault refuses the save. A concern does not: the workflow may be saved ahead of what it names.
"""

from dataclasses import dataclass
from typing import cast

from procession.engine.action_checks import check_action
from procession.engine.content_type import PUBLISHED, ContentType
from procession.engine.entry import CREATED, DELETED, TRANSITION, UNPUBLISHED, UPDATED
from procession.engine.errors import Concern, Fault
from procession.engine.findings import MOST_CONCERNS, Findings, Surroundings
from procession.engine.names import NAME_RULE, is_name, told
from procession.engine.reach_checks import warn_of_reach
from procession.engine.template_checks import warn_of_templates
from procession.engine.workflow import Definition

EVENTS = (CREATED, UPDATED, DELETED, PUBLISHED, UNPUBLISHED)
MOST_CONTENT_TYPES, MOST_EVENTS, MOST_ACTIONS = 50, 20, 50
MOST_CONDITIONS, LONGEST_CONDITION = 50, 2000

PROPERTIES = (
    *("name", "triggerContentTypes", "triggerEvents", "conditions", "actions", "executor"),
    *("enabled", "id", "version", "createdAt", "updatedAt"),  # the last four come with an answer
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check. The definition is there when nothing is refused."""

    definition: Definition | None
    enabled: bool
    faults: tuple[Fault, ...]
    concerns: tuple[Concern, ...]
    left_out: int = 0  # of the concerns


def check_definition(body: object, around: Surroundings) -> Checked:
    """What a POST or PUT of a workflow says."""
    found = Findings()
    if not isinstance(body, dict):
        return Checked(None, True, (Fault("body", "must be an object"),), ())
    root = cast("dict[str, object]", body)
    found.warn_of_unknown(root, "", PROPERTIES)
    definition = _definition(root, around, found)
    warn_of_templates(definition, around, found)
    warn_of_reach(definition, around, found)
    if root.get("executor") is not None:
        found.refuse("executor", "must be null: there is no executor but the built-in worker")
    enabled = root.get("enabled")
    if enabled is not None and not isinstance(enabled, bool):
        found.refuse("enabled", "must be true or false")
    return Checked(
        None if found.faults else definition,
        enabled is not False,
        tuple(found.faults),
        tuple(found.concerns),
        found.left_out,
    )


def _definition(root: dict[str, object], around: Surroundings, found: Findings) -> Definition:
    """What can be read of it: all of it, if nothing is refused."""
    content_types = _content_types(root.get("triggerContentTypes"), around, found)
    actions = found.items(root.get("actions"), "actions")
    if root.get("actions") is None:
        found.refuse("actions", "is required")
    elif not 1 <= len(actions) <= MOST_ACTIONS:
        found.refuse("actions", f"must be 1 to {MOST_ACTIONS}")
    return Definition(
        name=found.name(root.get("name")),
        trigger_content_types=content_types,
        trigger_events=_events(root.get("triggerEvents"), content_types, around, found),
        conditions=_conditions(root.get("conditions"), found),
        actions=tuple(
            check_action(one, f"actions[{index}]", around, found)
            for index, one in enumerate(actions[:MOST_ACTIONS])
        ),
    )


def capped(concerns: tuple[Concern, ...], left_out: int = 0) -> tuple[Concern, ...]:
    """As an answer shows them: the first fifty, and how many are left."""
    left = max(0, len(concerns) - MOST_CONCERNS) + left_out
    if not left:
        return concerns
    return (*concerns[:MOST_CONCERNS], Concern("", f"{left} more warnings are left out"))


def _content_types(value: object, around: Surroundings, found: Findings) -> tuple[str, ...]:
    path = "triggerContentTypes"
    names: list[str] = []
    for name, index in found.texts(value, path, least=1, most=MOST_CONTENT_TYPES).items():
        if not is_name(name):
            found.refuse(f"{path}[{index}]", NAME_RULE if name.strip() else "must not be blank")
            continue
        names.append(name)
        if name not in around.content_types:
            found.warn(f"{path}[{index}]", f"there is no content type {name}")
    return tuple(names)


def _events(
    value: object, content_types: tuple[str, ...], around: Surroundings, found: Findings
) -> tuple[str, ...]:
    path = "triggerEvents"
    spelt = {event.lower(): event for event in EVENTS}
    events: list[str] = []
    for event, index in found.texts(value, path, least=1, most=MOST_EVENTS).items():
        if event.lower().startswith(TRANSITION):
            name = event[len(TRANSITION) :]
            declared = [around.content_types.get(one) for one in content_types]
            spellings = {one and _spelling(one, name) for one in declared}
            if len(spellings) == 1 and (spelling := spellings.pop()):
                events.append(TRANSITION + spelling)
            elif content_types:
                found.refuse(f"{path}[{index}]", _declared(content_types, around))
        elif event.lower() in spelt:
            events.append(spelt[event.lower()])
        else:
            known = f"must be one of {', '.join(EVENTS)} or {TRANSITION}NAME"
            found.refuse(f"{path}[{index}]", known)
    return tuple(dict.fromkeys(events))


def _spelling(content_type: ContentType, name: str) -> str | None:
    transition = content_type.transition(name)
    return transition and transition[0]


def _declared(names: tuple[str, ...], around: Surroundings) -> str:
    """Why a transition is none of every content type: what each of them does declare."""
    declares: list[str] = []
    for name in names:
        content_type = around.content_types.get(name)
        if content_type is None:
            declares.append(f"{name} does not exist")
        else:
            declared = told(content_type.lifecycle.transitions) or "no transition"
            declares.append(f"{name} declares {declared}")
    return f"must be a transition that each content type declares alike: {'; '.join(declares)}"


def _conditions(value: object, found: Findings) -> dict[str, str]:
    conditions = found.properties(value, "conditions")
    if len(conditions) > MOST_CONDITIONS:
        found.refuse("conditions", f"must be at most {MOST_CONDITIONS}")
    kept: dict[str, str] = {}
    for key, wanted in conditions.items():
        if isinstance(wanted, str) and len(wanted) <= LONGEST_CONDITION:
            kept[key] = wanted
        else:
            rule = f"must be text of at most {LONGEST_CONDITION:,} characters"
            found.refuse(f"conditions.{key}", rule)
    return kept
