"""Attempts to perform, and actions that behave as a test needs them to."""

import threading
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from procession.actions import Action
from procession.actions.attempt import Attempt
from procession.actions.base import Tenant
from procession.actions.perform import perform
from procession.actions.registry import Registry
from procession.engine.access import Actor, ActorKind
from procession.engine.content_type import ContentType, Field, Sensitivity
from procession.engine.entry import Entry
from procession.engine.workflow import ActionDefinition, Compensate, Definition

AT = datetime(2026, 11, 30, 8, tzinfo=UTC)
ANN = Actor(kind=ActorKind.API_KEY, id="k1", name="Ann")
RUN = UUID("5f0c1d2e-8a4b-4c6d-9e0f-112233445566")
ARTICLE = ContentType(
    {
        "Title": Field(),
        "Price": Field(sensitivity=Sensitivity.SENSITIVE),
        "Cost": Field(sensitivity=Sensitivity.HIDDEN),
    }
)


def an_entry(**changes) -> Entry:
    given = {
        "id": "a-17",
        "content_type": "Article",
        "status": "Published",
        "data": {"Title": "Hello", "Price": 7, "Cost": 3, "Stray": "x"},
        "created_at": AT,
        "updated_at": AT + timedelta(minutes=5),
        "created_by": ANN,
        "updated_by": ANN,
    }
    return Entry(**given | changes)


class Watched(dict):
    """Data of an entry that knows by which threads its fields were read."""

    def __init__(self, *given):
        super().__init__(*given)
        self.threads, self.open = set(), threading.Event()
        self.open.set()

    def __getitem__(self, name):
        self.threads.add(threading.current_thread())
        self.open.wait(10)
        return super().__getitem__(name)


def an_attempt(type_="Custom", parameters=None, undo_of=None, **changes) -> Attempt:
    action = ActionDefinition(type=type_, parameters=parameters or {})
    if undo_of is not None:
        action = ActionDefinition(
            type=undo_of, compensate=Compensate(type=type_, parameters=parameters or {})
        )
    given = {
        "tenant": Tenant("default", "Default"),
        "run_id": RUN,
        "workflow_id": UUID(int=7),
        "workflow_name": "Tell",
        "trigger": "Published",
        "ordinal": 0,
        "number": 1,
        "definition": Definition(
            name="Tell",
            trigger_content_types=("Article",),
            trigger_events=("Published",),
            actions=(action,),
        ),
        "content_type": "Article",
        "entry_id": "a-17",
        "entry": an_entry(),
        "defined": ARTICLE,
        "undo": undo_of is not None,
    }
    return Attempt(**given | changes)


def an_action(perform, **declared) -> Action:
    """An action whose body is this function of context and parameters."""
    return type("Custom", (Action,), {"perform": staticmethod(perform), **declared})()


@pytest.fixture
def performed(make_client):
    """Performs an attempt of a custom action, given as a function, or of what a registry serves."""

    async def perform_it(action, attempt=None, limit=10.0):
        registry = Registry({"Custom": action} if isinstance(action, Action) else action)
        return await perform(
            registry,
            attempt or an_attempt(),
            client=make_client(),
            limit=timedelta(seconds=limit),
        )

    return perform_it
