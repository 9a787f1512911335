"""What a process cannot do, said to the person who started it."""


class RefusalError(Exception):
    """It cannot be done. The message says why, and what would help."""

    status = 1  # that the process ends with


class ArgumentError(RefusalError):
    """It was asked for in a wrong way."""

    status = 2
