"""Making an entry that asks somebody to do something: one, however often the attempt is made."""

from collections.abc import Mapping

from typing_extensions import override

from procession.actions.base import Action, Context, Decide, Parameter
from procession.engine.change import Change, Key, Making, changed
from procession.engine.content_type import ContentType
from procession.engine.entry import Entry
from procession.engine.field_text import MisfitError, value_of
from procession.engine.names import is_name
from procession.engine.outcome import Failed, Outcome

CONTENT_TYPE = "Task"
STATUS = "Draft"
DATA = "Data."


class CreateTask(Action):
    """Make an entry that asks somebody to do something."""

    parameters = (
        Parameter(
            "Title",
            required=True,
            description="Its field Title",
            example="Check {{data.Title}}",
        ),
        Parameter(
            "ContentType", description="Of which content type; Task when left out", example="Task"
        ),
        Parameter(
            "Status",
            description="When left out, Draft if that is declared, else the first",
            example="Open",
        ),
        Parameter("Data.*", description="Its field of this name", example="2026-12-01"),
    )
    repeatable = True

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        key = Key(
            context.tenant.slug,
            parameters.get("ContentType", "").strip() or CONTENT_TYPE,
            f"task-{context.idempotency_key}",
        )
        texts = {
            name.removeprefix(DATA): text
            for name, text in parameters.items()
            if name.startswith(DATA)
        } | {
            "Title": parameters.get("Title", ""),
            "SourceEntryId": context.entry.id,
            "SourceContentType": context.entry.content_type,
        }
        if wrong := [name for name in texts if not is_name(name)]:
            return Failed(f"{DATA}{wrong[0]} is no name of a field.")
        decide = _task(key, parameters.get("Status", "").strip(), texts)
        assert context.entries is not None, "whoever performs it gives them"
        return await context.entries.once(context.idempotency_key, key.content_type, key.id, decide)


def _task(key: Key, status: str, texts: Mapping[str, str]) -> Decide:
    """The task as it is to be, or as it is already; or why there can be none.

    Why is told by the names of the parameters: what they hold may be for few to read.
    """

    def decide(made: Making | None, entry: Entry | None) -> Entry | Failed:
        if made is None:
            return Failed("ContentType names no content type that there is.")
        if entry is not None:
            return entry
        wanted = status or _first(made.content_type)
        if wanted not in made.content_type.lifecycle.statuses:
            return Failed("Status is none that its content type declares.")
        data: dict[str, object] = {}
        for name, text in texts.items():
            try:
                data[name] = value_of(made.content_type, name, text)
            except MisfitError:
                return Failed(f"The value does not fit the field {name}.")
        return changed(None, key, Change(data=data, status=wanted), made)

    return decide


def _first(content_type: ContentType) -> str:
    statuses = content_type.lifecycle.statuses
    return STATUS if STATUS in statuses else statuses[0]
