"""What a command tells whoever gave it; a process that serves has its log for that."""

import json
import os
import re
import sys

from procession.app.refusal import RefusalError

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def say(text: str) -> None:
    """Lines on standard output, now. Where it has not all of the signs, they are told as escapes.

    They are those of JSON, so that a JSON text means the same.
    """
    try:
        try:
            _print(text)
        except UnicodeEncodeError:
            _print(_BEYOND_ASCII.sub(lambda one: json.dumps(one[0])[1:-1], text))
    except BrokenPipeError:
        raise
    except OSError as error:
        leave()
        raise RefusalError(f"The answer cannot be written: {error.strerror}.") from None


def leave() -> None:
    """Give up on standard output, or what is left of it is tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201  it is what was asked for
