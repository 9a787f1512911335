"""The entry of a rehearsal, and whether it fires the workflow."""

from collections.abc import Mapping
from typing import cast

from procession.actions.base import Tenant
from procession.engine.change import Key, Making, changed, read_change
from procession.engine.conditions import first_failing
from procession.engine.content_type import ContentType, Field, Kind
from procession.engine.entry import Entry
from procession.engine.workflow import Definition


def key_and_data(
    tenant: Tenant, workflow: Mapping[str, object], entry: Mapping[str, object]
) -> tuple[Key, Mapping[str, object]]:
    """Which entry this is; the first content type of the workflow, when it says none."""
    named = workflow.get("triggerContentTypes")
    first = cast("list[str]", named)[0] if named else ""
    content_type = cast("str", entry.get("contentType", first))
    data = cast("Mapping[str, object]", entry.get("data", {}))
    return Key(tenant.slug, content_type, cast("str", entry.get("id", "e-1"))), data


def open_type(data: Mapping[str, object]) -> ContentType:
    """A content type that takes this data, whatever it is; what is written to a text stays text."""
    return ContentType({name: Field(_kind(value)) for name, value in data.items()})


def _kind(value: object) -> Kind:
    return Kind.TEXT if value is None or isinstance(value, str) else Kind.JSON


def entry_of(key: Key, body: Mapping[str, object], made: Making) -> Entry:
    """The entry that this body makes; raises ValidationFailedError."""
    change = read_change({"data": {}, **body}, made.content_type)
    return changed(None, key, change, made)


def unmet(used: Definition, trigger: str, key: Key, entry: Entry | None) -> str | None:
    """By what the entry does not fire the workflow: the trigger, its type or a condition."""
    if trigger not in used.trigger_events:
        return trigger
    if key.content_type not in used.trigger_content_types:
        return key.content_type
    return first_failing(used.conditions, entry)
