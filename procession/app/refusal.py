"""What a process cannot do, said to the person who started it."""


class RefusalError(Exception):
    """It cannot be done. The message says why, and what would help."""
