"""Warning of what a workflow names that is not there, and of branches that take too long.

A Conditional's condition is looked at too: what is no comparison, or compares nothing, is no fault.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from procession.engine.branches import BRANCHES, CONDITIONAL, REQUEST, BranchError, children_of
from procession.engine.conditions import Comparison, parse_comparison
from procession.engine.content_type import Sensitivity
from procession.engine.findings import Findings, Surroundings
from procession.engine.workflow import Definition

CONDITION = "Condition"  # the parameter of a Conditional that chooses
TASK = "Task"  # the content type that CreateTask makes when none is named


@dataclass(frozen=True, slots=True)
class _Step:
    """An action, a compensation or a child, and where it stands."""

    path: str
    type: str
    parameters: Mapping[str, str]


def warn_of_reach(definition: Definition, around: Surroundings, found: Findings) -> None:
    """What an attempt would meet, told while the author still looks."""
    for ordinal, action in enumerate(definition.actions):
        path = f"actions[{ordinal}]"
        steps = [_Step(path, action.type, action.parameters)]
        if undo := action.compensate:
            steps.append(_Step(f"{path}.compensate", undo.type, undo.parameters))
        for top in steps:
            for step in _all(top):
                _warn_of_absent(step, around, found)
                _warn_of_condition(step, definition, around, found)
            _warn_of_length(top, around, found)


def _all(step: _Step) -> Iterator[_Step]:
    yield step
    for branch in BRANCHES:
        for child in _children(step, branch):
            yield from _all(child)


def _children(step: _Step, branch: str) -> list[_Step]:
    """The children of a branch; none where it has faults, which are told elsewhere."""
    if step.type != CONDITIONAL:
        return []
    try:
        children = children_of(step.parameters.get(branch, ""))
    except BranchError:
        return []
    path = f"{step.path}.parameters.{branch}"
    return [
        _Step(f"{path}[{index}]", one.type, one.parameters) for index, one in enumerate(children)
    ]


def _warn_of_absent(step: _Step, around: Surroundings, found: Findings) -> None:
    """A name that is written out can be looked up; one that has a placeholder cannot."""
    match step.type:
        case "CreateTask":
            name, default = "ContentType", TASK
        case "UpdateField":
            name, default = "TargetContentType", ""
        case "Request":
            name, default = REQUEST, ""
        case _:
            return
    wanted = step.parameters.get(name, "").strip() or default
    is_request = step.type == REQUEST
    known = around.requests if is_request else around.content_types
    if not wanted or known is None or wanted in known or ("{{" in wanted and not is_request):
        return
    what = "request" if is_request else "content type"
    found.warn(f"{step.path}.parameters.{name}", f"there is no {what} {wanted}")


def _warn_of_condition(
    step: _Step, definition: Definition, around: Surroundings, found: Findings
) -> None:
    """A comparison that goes one way whatever the entry holds."""
    if step.type != CONDITIONAL:
        return
    place = f"{step.path}.parameters.{CONDITION}"
    comparison = parse_comparison(step.parameters.get(CONDITION, ""))
    if comparison is None:
        found.warn(place, "is no comparison, such as {{data.X}} == text, and counts as false")
        return
    for reason in _empty(comparison, definition, around):
        found.warn(place, f"{{{{{comparison.name}}}}} is empty {reason}")


def _empty(comparison: Comparison, definition: Definition, around: Surroundings) -> Iterator[str]:
    """Why what is compared is never there, for each content type where it is not."""
    if not comparison.is_known():
        yield "here: a condition reads {{data.X}}, {{status}} and {{contentType}}"
        return
    _, of_data, name = comparison.name.partition("data.")
    for one in definition.trigger_content_types if of_data else ():
        declared = around.content_types.get(one)
        field = declared.fields.get(name) if declared else None
        if declared and field is None:
            yield f"for {one}, which does not declare the field"
        elif field and field.sensitivity is Sensitivity.HIDDEN:
            yield f"for {one}, where the field is Hidden"


def _warn_of_length(step: _Step, around: Surroundings, found: Findings) -> None:
    """The children of a branch share the time of one attempt."""
    for branch in BRANCHES:
        longest = sum(_longest(one, around) for one in _children(step, branch))
        if longest > around.most_seconds:
            found.warn(
                f"{step.path}.parameters.{branch}",
                f"may take {longest:g} s in all, of {around.most_seconds:g} s that an attempt has"
                " for its calls",
            )


def _longest(step: _Step, around: Surroundings) -> float:
    if step.type == CONDITIONAL:
        each = (sum(_longest(one, around) for one in _children(step, name)) for name in BRANCHES)
        return max(each)
    return around.longest.get(step.type, 0)
