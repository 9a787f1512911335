"""What an action says, made into one of the four outcomes, of plain values that may be kept.

Actions are the code of others, and so is whatever they return: each field is made to the very type
that it is of. What cannot be is left out, and the error names it; what happened stays what it was.
"""

from collections.abc import Iterable, Mapping
from typing import cast

from procession.actions.caught import caught
from procession.engine.masking import mask
from procession.engine.outcome import Failed, Outcome, Skipped, Succeeded, Unknown
from procession.engine.plain import number_of, text_of
from procession.engine.redaction import LONGEST, LONGEST_READ, redact

LARGEST_STATUS = 999
READ = 4 * LONGEST_READ  # of what an action says: masks make it shorter, and then it is cut
UNREADABLE = "What the action returned cannot be read."


def outcome_of(result: object, credentials: Iterable[str]) -> Outcome:
    """The outcome as it may be kept.

    What was its action's to know is masked, whatever it looks like: its author may have cut what he
    tells, and a credential in two; so may the cut here. Then it is redacted.
    """
    outcome, _ = caught(lambda: _Said(result, credentials).outcome())
    return outcome or Unknown(UNREADABLE)


class _Said:
    """What was returned, and what of it could not be kept."""

    def __init__(self, result: object, credentials: Iterable[str]) -> None:
        self._result, self._credentials = result, credentials
        self._left_out: list[str] = []

    def outcome(self) -> Outcome:
        match self._result:
            case Succeeded():
                outputs, status = self._outputs(), self._status()
                return Succeeded(outputs, status, self._error(optional=True))
            case Failed():
                retryable, status = self._retryable(), self._status()
                return Failed(self._error() or "", retryable=retryable, response_status=status)
            case Unknown():
                status = self._status()
                return Unknown(self._error() or "", status)
            case Skipped():
                status = self._status()
                return Skipped(self._error() or "", status)
            case other:
                said = f"The action returned {type(other).__name__}, which is no outcome."
                return Unknown(redact(said))

    def _field(self, name: str) -> object:
        value, error = caught(lambda: getattr(self._result, name))
        if error is not None:
            self._left_out.append(name)
        return value

    def _outputs(self) -> Mapping[str, object]:
        given = self._field("outputs")
        if type(given) is dict:
            return cast("dict[str, object]", given)
        if isinstance(given, Mapping):
            outputs, error = caught(lambda: dict(cast("Mapping[str, object]", given)))
            if error is None and outputs is not None:
                return outputs
        self._left_out.append("outputs")
        return {}

    def _status(self) -> int | None:
        given = self._field("response_status")
        number = number_of(given)
        if number is not None and 0 <= number <= LARGEST_STATUS:
            return number
        if given is not None:
            self._left_out.append("response_status")
        return None

    def _retryable(self) -> bool:
        given = self._field("retryable")
        is_so, error = caught(lambda: bool(given))
        if error is not None:
            self._left_out.append("retryable")
        return is_so or False

    def _error(self, *, optional: bool = False) -> str | None:
        """What it tells and, behind that, what could not be kept of what else it says."""
        given = self._field("error")
        is_none = given is None and (optional or "error" in self._left_out)
        told = "" if is_none else text_of(given)
        told = type(given).__name__ if told is None else told
        text = redact(self._masked(told)) if told else ""
        left_out = ", ".join(dict.fromkeys(self._left_out))
        if left_out:
            note = f"Could not be kept: {left_out}."
            text = f"{text[: LONGEST - len(note) - 1].rstrip()} {note}".lstrip()
        return text or (None if optional else "")

    def _masked(self, text: str) -> str:
        credentials = list(self._credentials)
        return mask(text[:READ], credentials, is_cut=True) if credentials else text
