"""How long an action waits after a failure.

Each wait is twice the one before, with up to a quarter more so that actions that failed together
do not come back together.
"""

from datetime import timedelta

FAILURES = 5  # counted ones, after which an action is Failed and waits for a person
FIRST = 10  # seconds
LONGEST = 600  # seconds, before the jitter
JITTER = 0.25


def backoff(failures: int, jitter: float) -> timedelta:
    """The wait after this many counted failures; jitter is uniform from 0 to 1."""
    wait = min(FIRST * 2 ** (failures - 1), LONGEST)
    return timedelta(seconds=wait * (1 + JITTER * jitter))
