"""Values of the very types that they are taken for, whatever their class has made of them.

Others derive from `str` and `int` as they like, and what they override may do anything. Only the
plain ones are stored, and are sure to come back; here none of the overridden is called. What only
says that it is of a type is not of it.
"""

from typing import cast


def text_of(value: object) -> str | None:
    """The text that this is; None when it is none."""
    return str.__str__(cast("str", value)) if issubclass(type(value), str) else None


def number_of(value: object) -> int | None:
    """The whole number that this is; None when it is none, as a truth value."""
    if type(value) is bool or not issubclass(type(value), int):
        return None
    return int.__int__(cast("int", value))


def real_of(value: object) -> float | None:
    """The real number that this is; None when it is none, as a whole one."""
    return float.__float__(cast("float", value)) if issubclass(type(value), float) else None
