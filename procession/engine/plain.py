"""Values of the very types that they are taken for, whatever their class has made of them.

Others derive from `str` and `int` as they like, and what they override may do anything. Only the
plain ones are stored, and are sure to come back; here none of the overridden is called.
"""


def text_of(value: object) -> str | None:
    """The text that this is; None when it is none."""
    return str.__str__(value) if isinstance(value, str) else None


def number_of(value: object) -> int | None:
    """The whole number that this is; None when it is none, as a truth value."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return int.__int__(value)
