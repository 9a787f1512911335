"""A run in memory: the engine decides, the actions are performed, and the clock is moved.

One workflow, one entry. What its actions write is kept and what that would fire is told, and fires
nothing.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from msgspec.structs import replace

from procession.actions.attempt import Attempt, Performed
from procession.actions.base import Action, Event, Kept, Tenant
from procession.actions.load import built_in
from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.engine import run as engine
from procession.engine.access import Actor, ActorKind
from procession.engine.content_type import parse_content_type
from procession.engine.document import at, put
from procession.engine.entry import DELETED, TRANSITION, Entry
from procession.engine.errors import Concern, ValidationFailedError
from procession.engine.findings import Surroundings
from procession.engine.run import Due, Refusal, Run, RunStatus, Step, WorkflowState
from procession.engine.validation import capped, check_definition
from procession.engine.workflow import Definition
from procession.outbound.http import Client
from procession.testing.calls import Answers
from procession.testing.memory import Memory
from procession.testing.requests import Bodies, requests_of
from procession.testing.subject import entry_of, key_and_data, open_type, unmet
from procession.testing.tried import NotFiredError, RefusedError, Tried

START = datetime(2026, 11, 30, 8, tzinfo=UTC)
LONGEST = 1000  # attempts of one rehearsal: more are a test that does not end
RUN = UUID("00000000-0000-4000-8000-000000000001")
WORKFLOW = UUID("00000000-0000-4000-8000-000000000002")
AUTHOR = Actor(kind=ActorKind.USER, id="author", name="An Author", email="author@example.com")


class Rehearsal:
    """A run of a workflow, from its queueing to its end.

    The workflow and content types are what the API takes as JSON; a content type that is not given
    holds the fields of the entry, all of them Public. Actions are those built in, with `actions`
    beside them or in their place; `http` answers what leaves. `connectors` and `requests` are, by
    slug, what a Request is sent through.
    """

    def __init__(  # noqa: PLR0913 - all that a run stands on
        self,
        workflow: Mapping[str, object],
        entry: Mapping[str, object],
        *,
        trigger: str | None = None,
        actions: Mapping[str, Action] | None = None,
        content_types: Mapping[str, object] | None = None,
        connectors: Bodies | None = None,
        requests: Bodies | None = None,
        http: Client | None = None,
        tenant: Tenant | None = None,
        start: datetime = START,
    ) -> None:
        self.tenant = tenant or Tenant("default", "Default")
        self._requests = requests_of(self.tenant.slug, connectors or {}, requests or {}, start)
        stored = self._requests.stored(self._seconds)
        self.registry = Registry({**built_in(requests=stored), **(actions or {})})
        self.http = http or Answers()
        self.tried: list[Tried] = []
        self._lose_next = False
        declared = {name: parse_content_type(body) for name, body in (content_types or {}).items()}
        key, data = key_and_data(self.tenant, workflow, entry)
        declared.setdefault(key.content_type, open_type(data))
        self._key = key
        self.memory = Memory(declared, AUTHOR, start)
        self.definition, self.warnings = self._checked(workflow)
        self.trigger = trigger or self.definition.trigger_events[0]
        self._put(entry)
        self.run: Run = engine.start(self.definition, start)

    def _checked(self, workflow: Mapping[str, object]) -> tuple[Definition, tuple[Concern, ...]]:
        around = Surroundings(self.registry.catalogue(), self.memory.content_types)
        checked = check_definition(dict(workflow), around)
        if checked.definition is None:
            raise ValidationFailedError(checked.faults)
        return checked.definition, capped(checked.concerns, checked.left_out)

    def _put(self, body: Mapping[str, object]) -> None:
        """Put the entry in its place, and see that it fires the workflow."""
        entry = entry_of(self._key, body, self.memory.making(self._key.content_type))
        if self.trigger == DELETED:
            entry = None
        else:
            self.memory.entries[self._key.content_type, self._key.id] = entry
        if failing := unmet(self.definition, self.trigger, self._key, entry):
            raise NotFiredError(failing)

    @property
    def now(self) -> datetime:
        """The time of the clock, which moves when it is told to, or when a step needs it."""
        return self.memory.now

    def _seconds(self) -> float:
        return self.now.timestamp()

    def advance(self, by: timedelta) -> None:
        """Move the clock on."""
        self.memory.now += by

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return engine.status(self.run)

    @property
    def statuses(self) -> list[str]:
        """Where each of its actions stands."""
        return [one.status.value for one in self.run.actions]

    @property
    def entry(self) -> Entry | None:
        """The entry as it is now; None when it is deleted."""
        return self.memory.entries.get((self._key.content_type, self._key.id))

    def delete_entry(self) -> None:
        """Take the entry away, as the application might at any time."""
        self.memory.entries.pop((self._key.content_type, self._key.id), None)

    def lose_next(self) -> None:
        """Let the worker vanish after the next attempt is performed and before it is recorded."""
        self._lose_next = True

    async def step(self) -> Tried | None:
        """Make the next attempt, moving the clock to when it is due; None when nothing is left."""
        found = engine.due(self.run, self.definition, self.now)
        if found is None:
            return None
        self.memory.now = max(self.now, found.at)
        attempt = self._claim(found)
        body = at(self.run, found.ordinal, undo=found.undo).body
        performed = await perform(
            self.registry,
            attempt,
            client=self.http,
            limit=timedelta(seconds=300),
            kept=Kept(body, store=partial(self._keep, found)),
            entries=self.memory,
        )
        lost, self._lose_next = self._lose_next, False
        self.run = (self._lost() if lost else self._recorded(performed)).run
        place = found.ordinal, found.undo, attempt.number, found.type, self.now
        self.tried.append(Tried(*place, performed.outcome, lost))
        return self.tried[-1]

    async def _keep(self, found: Due, body: str) -> None:
        """Keep what is about to be sent, for an attempt that comes after a lost one."""
        action = replace(at(self.run, found.ordinal, undo=found.undo), body=body)
        self.run = put(self.run, found.ordinal, action, undo=found.undo)

    def _recorded(self, performed: Performed) -> Step:
        return engine.settle(
            self.run,
            self.definition,
            performed.outcome,
            now=self.now,
            jitter=0,
            duration_ms=performed.duration_ms,
            body=performed.body,
        )

    def _lost(self) -> Step:
        return engine.lose(self.run, self.definition, now=self.now)

    async def finish(self) -> RunStatus:
        """Make every attempt that is left, and say how the run ended."""
        while await self.step():
            assert len(self.tried) < LONGEST, "the run does not end"
        return self.status

    def _claim(self, found: Due) -> Attempt:
        used = self.definition
        action = used.actions[found.ordinal]
        step = action.compensate if found.undo else action
        assert step is not None, "an undo that is due was declared"
        safe = self._requests.repeatable
        repeatable = self.registry.repeatable(step.type, step.parameters, safe)
        self.run = engine.claim(self.run, found, self.now, repeatable=repeatable)
        name = self.trigger
        transition = name.removeprefix(TRANSITION) if name.startswith(TRANSITION) else None
        return Attempt(
            tenant=self.tenant,
            run_id=RUN,
            workflow_id=WORKFLOW,
            workflow_name=used.name,
            trigger=name,
            ordinal=found.ordinal,
            number=at(self.run, found.ordinal, undo=found.undo).attempts,
            definition=used,
            content_type=self._key.content_type,
            entry_id=self._key.id,
            entry=self.entry,
            undo=found.undo,
            defined=self.memory.content_types[self._key.content_type],
            event=Event(AUTHOR, self.run.created_at, transition),
            outputs=self.run.outputs,
        )

    def retry(self, ordinal: int) -> None:
        """Put one action back to due, as an operator would."""
        self._command(
            engine.retry(
                self.run,
                self.definition,
                ordinal,
                now=self.now,
                lease_live=False,
                workflow=WorkflowState.ENABLED,
            )
        )

    def cancel(self) -> None:
        """Stop what has not happened."""
        self._command(engine.cancel(self.run, now=self.now, lease_live=False))

    def abandon(self) -> None:
        """Undo what has happened."""
        workflow = WorkflowState.ENABLED
        self._command(engine.abandon(self.run, self.definition, now=self.now, workflow=workflow))

    def _command(self, decided: Step | Refusal) -> None:
        if isinstance(decided, Refusal):
            raise RefusedError(decided.code)
        self.run = decided.run
