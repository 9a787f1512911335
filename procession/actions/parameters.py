"""The parameters of one attempt: what the version's definition says, with its values put in."""

from procession.actions.attempt import Attempt
from procession.engine.catalogue import ActionType
from procession.engine.scope import Names
from procession.engine.templates import MissingOutputError, RenderError, encoding_for, render


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
        name: text if kind.is_credential(name) else _rendered(definition.type, name, text, names)
        for name, text in definition.parameters.items()
    } | _reserved(attempt)


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
        outputs=attempt.outputs,
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
