"""Writing one field of an entry, or its status: once, however often the attempt is made."""

from collections.abc import Mapping

from typing_extensions import override

from procession.actions.base import Action, Context, Decide, Parameter
from procession.engine.change import Change, Key, Making, changed
from procession.engine.entry import Entry
from procession.engine.field_text import MisfitError, value_of
from procession.engine.names import is_entry_id, is_name
from procession.engine.outcome import Failed, Outcome

STATUS = "Status"
DATA = "data."


class UpdateField(Action):
    """Write one field of an entry, or its status."""

    parameters = (
        Parameter(
            "Field",
            required=True,
            description="Which: data.X, or X alone, or Status",
            example="data.Approved",
        ),
        Parameter(
            "Value",
            required=True,
            description="What it becomes, in the form of the field's type",
            example="true",
        ),
        Parameter(
            "TargetId",
            description="Which entry; the run's own when left out",
            example="{{data.AuthorId}}",
        ),
        Parameter(
            "TargetContentType",
            description="Of which content type; the run's own when left out",
            example="Author",
        ),
    )
    repeatable = True

    @override
    async def perform(self, context: Context, parameters: Mapping[str, str]) -> Outcome:
        field = parameters.get("Field", "").strip()
        target = _target(context, parameters)
        if not is_name(field.removeprefix(DATA)):
            return Failed("Field is none of data.X, X and Status.")
        if not is_entry_id(target.id) or not is_name(target.content_type):
            return Failed("TargetId and TargetContentType name no entry.")
        own = target == Key(context.tenant.slug, context.entry.content_type, context.entry.id)
        decide = _to(target, field, parameters.get("Value", ""), own=own)
        assert context.entries is not None, "whoever performs it gives them"
        key = context.idempotency_key
        return await context.entries.once(key, target.content_type, target.id, decide)


def _target(context: Context, parameters: Mapping[str, str]) -> Key:
    content_type = parameters.get("TargetContentType", "").strip()
    id_ = parameters.get("TargetId", "").strip()
    entry = context.entry
    return Key(context.tenant.slug, content_type or entry.content_type, id_ or entry.id)


def _to(key: Key, field: str, value: str, *, own: bool) -> Decide:
    """The entry with this value, or why that cannot be."""

    def decide(made: Making | None, entry: Entry | None) -> Entry | Failed:
        if made is None or entry is None:
            if own:
                return Failed("The run's own entry is deleted.")
            return Failed("The entry to write to does not exist.", retryable=True)
        if field == STATUS:
            if value.strip() not in made.content_type.lifecycle.statuses:
                return Failed("Value is no status that its content type declares.")
            return changed(entry, key, Change(data=entry.data, status=value.strip()), made)
        name = field.removeprefix(DATA)
        try:
            data = {**entry.data, name: value_of(made.content_type, name, value)}
        except MisfitError:
            return Failed("Value does not fit the field that Field names.")
        return changed(entry, key, Change(data=data), made)

    return decide
