"""What a workflow would do with an entry, shown without doing it.

Parameters are filled in as an attempt would, but for what only a run has: outputs of actions before
it stay as they are written, and credentials are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from procession.engine.access import Actor, ActorKind
from procession.engine.catalogue import Catalogue
from procession.engine.change import Change
from procession.engine.conditions import first_failing
from procession.engine.content_type import ContentType
from procession.engine.credentials import shown
from procession.engine.entry import DELETED, MANUAL, TRANSITION, Entry, Stub
from procession.engine.errors import Concern
from procession.engine.placeholders import placeholders
from procession.engine.scope import MOST_ITEMS, Names
from procession.engine.templates import LONGEST, Encoding, RenderError, encoding_for, render
from procession.engine.validation import EVENTS
from procession.engine.workflow import Definition

SAMPLE_ID = "sample"
SAMPLE_RUN = "00000000-0000-0000-0000-000000000000"
AUTHOR = Actor(kind=ActorKind.USER, id=SAMPLE_ID, name="Sample Author", email="author@example.com")
MOST_RENDERED = 4 * LONGEST  # of all parameters together, about: one answer holds them
MOST_READ = 50_000  # names, of all parameters together: one walk may read a name for each item

TOO_LONG = f"would be longer than {LONGEST:,} characters, and the action would fail for good"
TOO_MUCH = "is left as it is written: the parameters are too long for one answer"


@dataclass(frozen=True, slots=True)
class Sample:
    """The entry that is tried, and what fires."""

    entry: Entry
    content_type: ContentType
    trigger: str

    @property
    def left(self) -> Entry | None:
        """What conditions are read from."""
        return None if self.trigger == DELETED else self.entry

    def names(self) -> Names:
        """What templates may read of it, before anybody says whose it is."""
        entry, transition = self.entry, self.trigger.removeprefix(TRANSITION)
        stub = Stub(id=entry.id, content_type=entry.content_type)
        return Names(
            entry=self.left or stub,
            content_type=self.content_type,
            transition=None if transition == self.trigger else transition,
            transition_at=entry.updated_at,
            transition_by=AUTHOR,
            run_id=SAMPLE_RUN,
        )


def sample_entry(content_type: str, change: Change, declared: ContentType, now: datetime) -> Entry:
    """The entry as it would be, were it saved."""
    return Entry(
        id=SAMPLE_ID,
        content_type=content_type,
        status=change.status or declared.lifecycle.statuses[0],
        data=change.data,
        created_at=now,
        updated_at=now,
        created_by=AUTHOR,
        updated_by=AUTHOR,
    )


def trigger_of(text: str, content_type: ContentType) -> str | None:
    """The trigger in its own spelling; None where there is none for this content type."""
    for one in (*EVENTS, MANUAL):
        if text.lower() == one.lower():
            return one
    if not text.lower().startswith(TRANSITION):
        return None
    found = content_type.transition(text[len(TRANSITION) :])
    return found and TRANSITION + found[0]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the workflow fires; why not, where it is not for a condition."""

    failing_condition: str | None
    reasons: tuple[Concern, ...]

    @property
    def matches(self) -> bool:
        return self.failing_condition is None and not self.reasons


def judge(definition: Definition, sample: Sample, *, enabled: bool) -> Verdict:
    """Whether the sample fires the workflow."""
    reasons: list[Concern] = []
    if not enabled:
        reasons.append(Concern("workflow.enabled", "is false: nothing fires the workflow"))
    if sample.entry.content_type not in definition.trigger_content_types:
        reasons.append(Concern("entry.contentType", "is none that the workflow names"))
    if sample.trigger not in (*definition.trigger_events, MANUAL):
        reasons.append(Concern("trigger", f"{sample.trigger} is none that the workflow names"))
    return Verdict(first_failing(definition.conditions, sample.left), tuple(reasons))


@dataclass(frozen=True, slots=True)
class Prepared:
    """An action with its parameters filled in."""

    type: str
    parameters: Mapping[str, str]


def texts(definition: Definition, catalogue: Catalogue) -> Iterator[str]:
    """The texts that are filled in, up to the first that reads too much, after which none is."""
    left = MOST_READ
    for action in definition.actions:
        for name, text in shown(action, catalogue).parameters.items():
            if encoding_for(action.type, name):
                left -= _reads(text)
                if left < 0:
                    return
                yield text


def _reads(text: str) -> int:
    return sum(MOST_ITEMS if one.in_each else 1 for one in placeholders(text))


@dataclass(slots=True)
class _Filling:
    """One walk over the parameters of a definition, which all share what may be shown."""

    names: Names
    left: int = MOST_RENDERED
    reads: int = MOST_READ
    concerns: list[Concern] = field(default_factory=list[Concern])

    def filled(self, path: str, text: str, encoding: Encoding) -> str:
        """The text with its values, or as it is written where that is too much."""
        if self.left > 0 and self.reads >= 0:  # or it would be looked at for nothing
            self.reads -= _reads(text)
        if self.left <= 0 or self.reads < 0:
            self.concerns.append(Concern(path, TOO_MUCH))
            return text
        try:
            said = render(text, self.names, encoding=encoding)
        except RenderError:
            self.left -= LONGEST
            self.concerns.append(Concern(path, TOO_LONG))
            return text
        self.left -= len(said)
        return said


def prepare(
    definition: Definition, catalogue: Catalogue, names: Names
) -> tuple[list[Prepared], list[Concern]]:
    """Every action as it would be performed, and what could not be shown."""
    prepared: list[Prepared] = []
    filling = _Filling(names)
    for ordinal, action in enumerate(definition.actions):
        path = f"workflow.actions[{ordinal}].parameters"
        parameters = {
            name: filling.filled(f"{path}.{name}", text, encoding)
            if (encoding := encoding_for(action.type, name))
            else text
            for name, text in shown(action, catalogue).parameters.items()
        }
        prepared.append(Prepared(action.type, parameters))
    return prepared, filling.concerns
