"""Which outputs of an action a run keeps: those that the definition captures, as short text."""

import math
from collections.abc import Iterable, Mapping

from procession.engine.plain import number_of, real_of, text_of
from procession.engine.redaction import storable

MAX_CHARACTERS = 2_000
MAX_BITS = 4 * MAX_CHARACTERS  # of a number that may be that short; longer ones Python refuses


def captured(
    names: Iterable[str], outputs: Mapping[str, object]
) -> tuple[dict[str, str], str | None]:
    """The outputs that are kept, and what to say of those that could not be."""
    kept: dict[str, str] = {}
    refused: list[str] = []
    for name in names:
        if name not in outputs:
            continue
        text = _text(outputs[name])
        if text is None or len(text) > MAX_CHARACTERS:
            refused.append(name)
        else:
            kept[name] = text
    return kept, _refusal(refused)


def _text(value: object) -> str | None:
    """A scalar in JSON text form, text as it can be stored; None for anything else."""
    if (text := text_of(value)) is not None:  # one that is too long is not read
        return storable(text) if len(text) <= MAX_CHARACTERS else None
    if (number := number_of(value)) is not None:
        return str(number) if number.bit_length() <= MAX_BITS else None
    if (real := real_of(value)) is not None:
        return repr(real) if math.isfinite(real) else None
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return None


def _refusal(names: list[str]) -> str | None:
    if not names:
        return None
    return f"Not kept, since longer than {MAX_CHARACTERS:,} characters or no scalar: " + ", ".join(
        names
    )
