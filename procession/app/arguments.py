"""What command lines hold, checked as they are read."""

import argparse
from datetime import UTC, datetime

from procession.engine.run import RunStatus


def utf8(text: str) -> str:
    """A text. Bytes that are none reach a command as halves of characters."""
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise argparse.ArgumentTypeError("takes text in UTF-8")
    return text


def status(text: str) -> RunStatus:
    """A status of a run, in any case."""
    for one in RunStatus:
        if text.lower() == one.lower():
            return one
    raise argparse.ArgumentTypeError(f"takes one of {', '.join(RunStatus)}, not {text}")


def instant(text: str) -> datetime:
    """A time, in UTC where it does not say."""
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        rule = "takes a time such as 2027-01-31T12:00, or 2027-01-31T12:00+08:00"
        raise argparse.ArgumentTypeError(f"{rule}, not {text}") from None


def whole(text: str, least: int, most: int) -> int:
    """A whole number within these."""
    if not (text.isascii() and text.isdecimal() and least <= int(text[:10]) <= most):
        raise argparse.ArgumentTypeError(f"takes an integer from {least} to {most}, not {text}")
    return int(text[:10])
