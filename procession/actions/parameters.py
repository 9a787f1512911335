"""The parameters of one attempt: what the version's definition says, with its values put in."""

import re
from collections.abc import Iterator

from procession.actions.attempt import Attempt
from procession.actions.thread import go_on
from procession.engine.catalogue import ActionType
from procession.engine.entry import Reference
from procession.engine.scope import MOST_ITEMS, Names
from procession.engine.templates import (
    MissingOutputError,
    RenderError,
    encoding_for,
    far_fields,
    references_in,
    render,
)
from procession.queue.sealing import UnreadableError


class UnrenderedError(Exception):
    """A parameter has no value: retryable where an earlier action may yet give it one."""

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        super().__init__(reason)
        self.retryable = retryable


def parameters_of(attempt: Attempt, kind: ActionType) -> dict[str, str]:
    """Every parameter, and the reserved ones; raises UnrenderedError."""
    names = names_of(attempt)
    definition = attempt.action
    return {
        name: _opened(attempt, name, text)
        if kind.is_credential(name)
        else _rendered(definition.type, name, text, names)
        for name, text in definition.parameters.items()
    } | _reserved(attempt)


# What a text has that reads another entry; most have not, and are not walked for it.
_FAR = re.compile(r"#each\s|\bdata\.\w+\.\w", re.ASCII)


def references_of(attempt: Attempt, kind: ActionType) -> tuple[set[Reference], set[str]]:
    """The entries that its templates refer to, and the fields that are read of them."""
    references, fields = set[Reference](), set[str]()
    texts = [one for one in _templates(attempt, kind) if _FAR.search(one)]
    if not texts:
        return references, fields
    names = names_of(attempt)
    for text in texts:
        references |= references_in(text, names)
        fields |= far_fields(text)
    return references, fields


def written_in(attempt: Attempt, kind: ActionType) -> int:
    """About how many characters of templates there are to fill in, repeated ones as often."""
    return sum(
        len(one) * (MOST_ITEMS if "#each" in one else 1) for one in _templates(attempt, kind)
    )


def _templates(attempt: Attempt, kind: ActionType) -> Iterator[str]:
    definition = attempt.action
    for name, text in definition.parameters.items():
        is_rendered = encoding_for(definition.type, name) and not kind.is_credential(name)
        if is_rendered and "{{" in text:
            yield text


def _opened(attempt: Attempt, name: str, text: str) -> str:
    try:
        return attempt.opened(name, text)
    except UnreadableError as error:
        what = f"The credential {name} cannot be read by any key of this worker"
        raise UnrenderedError(f"{what}: {error.remedy}.") from None


def _rendered(type_: str, name: str, text: str, names: Names) -> str:
    encoding = encoding_for(type_, name)
    if encoding is None or "{{" not in text:
        return text
    try:
        return render(text, names, encoding=encoding)
    except MissingOutputError as error:
        reason = f"The parameter {name} reads {error.placeholder}, which has no value."
        raise UnrenderedError(reason, retryable=True) from None
    except RenderError:
        raise UnrenderedError(f"The parameter {name} is too long.") from None


def names_of(attempt: Attempt) -> Names:
    """What its templates may read."""
    event, tenant = attempt.event, attempt.tenant
    return Names(
        entry=attempt.subject,
        content_type=attempt.defined,
        transition=event.transition,
        transition_at=event.at,
        transition_by=event.actor,
        time_zone=tenant.time_zone,
        currency=tenant.currency,
        site_url=tenant.site_url,
        console_url=attempt.console_url,
        run_id=str(attempt.run_id),
        references=attempt.references,
        go_on=go_on,
        outputs=None if attempt.child else attempt.outputs,  # in a branch they stay as written
    )


def _reserved(attempt: Attempt) -> dict[str, str]:
    given = {
        "IdempotencyKey": attempt.idempotency_key,
        "RunId": str(attempt.run_id),
        "WorkflowId": str(attempt.workflow_id),
        "TriggerEvent": attempt.trigger,
        "Attempt": str(attempt.number),
    }
    return given | ({"CompensationOf": str(attempt.ordinal)} if attempt.undo else {})
