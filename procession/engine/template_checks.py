"""Warning of placeholders that will give nothing, while the author still looks at them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from procession.engine.branches import BRANCHES, CONDITIONAL, BranchError, parse_branch
from procession.engine.content_type import ContentType, Kind, Sensitivity
from procession.engine.entry import DELETED
from procession.engine.findings import Findings, Surroundings
from procession.engine.formats import is_format
from procession.engine.placeholders import Read, placeholders
from procession.engine.scope import ENTRY_NAMES, LINKS, TRANSITION_NAMES, output_of
from procession.engine.templates import encoding_for
from procession.engine.workflow import Definition

PLAIN = frozenset(
    (
        *ENTRY_NAMES,
        *(f"transition.{name}" for name in TRANSITION_NAMES),
        *(f"links.{name}" for name in (*LINKS, "site")),
    )
)


GONE = frozenset(ENTRY_NAMES) - {"id", "contentType"}  # of an entry that is deleted
NO_OUTPUTS = -1  # in place of how many actions come before


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that will be rendered."""

    path: str
    text: str
    before: int  # the outputs of these may be read


def warn_of_templates(definition: Definition, around: Surroundings, found: Findings) -> None:
    """Each placeholder that gives nothing, for each content type where it does."""
    known = _Known(
        {
            name: around.content_types[name]
            for name in definition.trigger_content_types
            if name in around.content_types
        }
    )
    captures = [action.capture for action in definition.actions]
    for text in _texts(definition, around):
        for written, reads in _distinct(text.text).items():
            reasons: dict[str, None] = {}  # each once, in order
            for read in reads:
                reason = _of_output(read, text, captures) or _of_name(read)
                reasons |= dict.fromkeys([reason] if reason else known.reasons(read))
                if not reason and DELETED in definition.trigger_events and _is_gone(read):
                    reasons[f"gives nothing for {DELETED}, when the entry is gone"] = None
            if found.is_full:
                found.left_out += len(reasons)
                continue
            for one in reasons:
                found.warn(text.path, f"{written} {one}")


def _distinct(text: str) -> dict[str, dict[Read, None]]:
    """What each placeholder reads, told once however often it is written; an each by its begin."""
    found: dict[str, dict[Read, None]] = {}
    for read in placeholders(text):
        written = f"{{{{#each {read.name}}}}}" if read.each else read.written
        found.setdefault(written, {})[read] = None
    return found


def _texts(definition: Definition, around: Surroundings) -> Iterator[_Text]:
    last = len(definition.actions)
    for ordinal, action in enumerate(definition.actions):
        path = f"actions[{ordinal}]"
        yield from _of_step(path, action.type, action.parameters, ordinal, around)
        if undo := action.compensate:  # may read what every action of its run gave
            yield from _of_step(f"{path}.compensate", undo.type, undo.parameters, last, around)


def _of_step(
    path: str, type_: str, parameters: Mapping[str, str], before: int, around: Surroundings
) -> Iterator[_Text]:
    known = around.catalogue.types.get(type_)
    for name, text in parameters.items():
        place = f"{path}.parameters.{name}"
        if type_ == CONDITIONAL and name in BRANCHES:
            yield from _of_branch(place, text, around)
        elif known and not known.is_credential(name) and encoding_for(type_, name):
            yield _Text(place, text, before)


def _of_branch(path: str, text: str, around: Surroundings) -> Iterator[_Text]:
    try:
        children = parse_branch(text)
    except BranchError:
        return
    for index, child in enumerate(children):
        values = child.get("parameters")
        if isinstance(values, dict):
            parameters = {
                name: value
                for name, value in cast("dict[str, object]", values).items()
                if isinstance(value, str)
            }
            type_ = str(child.get("type"))
            yield from _of_step(f"{path}[{index}]", type_, parameters, NO_OUTPUTS, around)


def _of_output(read: Read, text: _Text, captures: Sequence[Sequence[str]]) -> str | None:
    """Why a reference to an output gives nothing."""
    output = None if read.formatted else output_of(read.name or "")
    if output is None:
        return None
    ordinal, name = output
    if text.before == NO_OUTPUTS:
        return "stays as it is written: no output is read inside a branch"
    if ordinal >= len(captures):
        return "names an action that there is not"
    if ordinal >= text.before:
        return "names an action that does not come before this one"
    return None if name in captures[ordinal] else f"is not captured by action {ordinal}"


def _of_name(read: Read) -> str | None:
    """Why a name gives nothing whatever the entry is."""
    name = read.name
    if name is None:
        return "stays as it is written: it is no placeholder"
    parts = name.split(".")
    is_known = (
        name in PLAIN
        or (parts[0] == "data" and len(parts) in (2, 3))
        or (parts[0] == "item" and len(parts) == 2 and read.in_each)  # noqa: PLR2004
        or (output_of(name) is not None and not read.formatted)
    )
    if not is_known or (read.each and not (parts[0] == "data" and len(parts) == 2)):  # noqa: PLR2004
        return "stays as it is written: the name is not known here"
    if read.format is not None and not is_format(read.format, read.arguments):
        return "stays as it is written: there is no such format"
    return None


def _is_gone(read: Read) -> bool:
    """Whether it is read of what a deleted entry has left behind nothing of."""
    name = read.name or ""
    return name.startswith("data.") or name in GONE


class _Known:
    """The content types that a definition names, as far as there are such."""

    def __init__(self, types: Mapping[str, ContentType]) -> None:
        self._types = types
        self._declared = {name for one in types.values() for name in one.fields}
        self._undeclared = [_undeclared(name) for name in types]

    def reasons(self, read: Read) -> Iterable[str]:
        """Why a data field gives nothing, for each content type."""
        match (read.name or "").split("."):
            case ["data", field_name, *_] if field_name not in self._declared:
                return self._undeclared  # most fields of a long text, if it is meant to be long
            case ["data", field_name, *far]:
                return self._of_field(field_name, is_far=bool(far) or read.each)
            case _:
                return ()

    def _of_field(self, field_name: str, *, is_far: bool) -> Iterator[str]:
        for name, content_type in self._types.items():
            field = content_type.fields.get(field_name)
            if field is None:
                yield _undeclared(name)
            elif field.sensitivity is Sensitivity.HIDDEN:
                yield f"gives nothing for {name}, where the field is Hidden"
            elif is_far and field.type not in (Kind.REFERENCE, Kind.JSON):
                yield f"gives nothing for {name}, where the field is no reference"


def _undeclared(name: str) -> str:
    return f"gives nothing for {name}, which does not declare the field"
