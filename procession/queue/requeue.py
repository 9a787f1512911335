"""The queue made anew from the runs: what the keeper does a stretch at a time, once round at once.

It may go on beside workers, whose keepers do the same: a run that somebody has locked is passed
over, and is decided on by whoever holds it.
"""

import logging
from dataclasses import replace

from procession.queue.leases import Locked, connection
from procession.queue.mend import LEAST, Place, mend
from procession.queue.pool import Database

log = logging.getLogger(__name__)

TRIES = 30  # in a row; each waits for a second


def requeue(database: Database) -> None:
    """Give every run the jobs that it calls for, and take away all others."""
    place, runs_done, jobs_done, tries = Place(), False, False, 0
    with connection(replace(database, prefer_indexes=True)) as conn:
        while not (runs_done and jobs_done):
            try:
                place = mend(conn, place)
            except Locked:
                tries += 1
                if tries == TRIES:
                    raise
                log.warning("The queue is locked by somebody, and is tried again")
                continue
            tries = 0
            runs_done = runs_done or (place.due_at is None and place.id == LEAST)
            jobs_done = jobs_done or place.job == 0
