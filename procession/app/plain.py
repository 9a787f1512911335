"""Texts from elsewhere, made fit for a terminal: none moves the cursor, hides or turns around.

What may do so is shown as an escape. Everything else stays as it is, in whatever script.
"""

import json
import re

# C0 and C1, what breaks lines, what turns the direction, and halves of characters
_UNFIT = r"\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_LINE = re.compile(f"[\n{_UNFIT}]")
_IN_LINES = re.compile(f"[{_UNFIT}]")


def plain(text: str) -> str:
    """The text on one line."""
    return _IN_A_LINE.sub(_escape, text)


def plain_lines(text: str) -> str:
    """The text on the lines that it has."""
    return _IN_LINES.sub(_escape, text)


def plain_json(text: str) -> str:
    """A JSON text that means the same."""
    return _IN_LINES.sub(lambda one: json.dumps(one[0])[1:-1], text)


def _escape(one: re.Match[str]) -> str:
    return one[0].encode("unicode_escape").decode()
