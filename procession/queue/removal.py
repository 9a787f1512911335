"""What a sweep removes: statements that take the oldest rows of a class, and no more than a batch.

Each says of every row whose it was. An unfinished run is in none of them, however old it is.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString

from procession.queue.idempotency import KEPT as KEPT_ANSWERS
from procession.queue.idempotency import REMOVE_ANSWERS

# By where the rows lie, which is certain while they are locked: a join might be turned around.
# now() and not clock_timestamp(): no index is walked by what may differ from row to row.
# Actions, history, outputs and markers go with their run.
REMOVE_SUCCEEDED = """
    delete from run
    where ctid = any (array(
        select ctid from run
        where status = 'Succeeded' and completed_at < now() - %(older)s::interval
        order by completed_at
        limit %(batch)s
        for update skip locked))
    returning tenant
"""
REMOVE_FAILED = """
    delete from run
    where ctid = any (array(
        select ctid from run
        where status in ('Failed', 'PartiallyFailed', 'Cancelled')
          and completed_at < now() - %(older)s::interval
        order by completed_at
        limit %(batch)s
        for update skip locked))
    returning tenant
"""
CLEAR_BODIES = """
    update delivery set response_body = null, response_body_cleared_at = clock_timestamp()
    where ctid = any (array(
        select ctid from delivery
        where response_body is not null and created_at < now() - %(older)s::interval
        order by created_at
        limit %(batch)s
        for update skip locked))
    returning tenant
"""
REMOVE_DELIVERIES = """
    delete from delivery
    where ctid = any (array(
        select ctid from delivery
        where created_at < now() - %(older)s::interval
        order by created_at
        limit %(batch)s
        for update skip locked))
    returning tenant
"""

# A run is queued with the version that is current, under a lock that a save waits for: once another
# one is, no run that is not there can name it. A run is older than the version after its own, but
# for as long as the save of that one may have waited; so its workflow's other runs are not read.
# In no order: one that takes too long (the foreign key looks through all runs of its workflow)
# should not stand before the others for ever.
REMOVE_VERSIONS = """
    delete from workflow_version
    where ctid = any (array(
        select kept.ctid
        from workflow_version as kept
        join workflow on workflow.tenant = kept.tenant and workflow.id = kept.workflow_id
        left join workflow_version as next
          on next.tenant = kept.tenant and next.workflow_id = kept.workflow_id
         and next.version = kept.version + 1
        where (kept.version <> workflow.version or workflow.deleted_at is not null)
          and kept.created_at < now() - %(older)s::interval
          and not exists (
                select from run
                where run.tenant = kept.tenant and run.workflow_id = kept.workflow_id
                  and run.workflow_version = kept.version
                  and run.created_at > kept.created_at - interval '11 minutes'
                  and run.created_at < coalesce(next.created_at, 'infinity')
                                       + interval '11 minutes')
        order by random()
        limit %(batch)s
        for update of kept skip locked))
    returning tenant
"""

# What became of a job is in its events; an attempt has none, and is deleted with its outcome.
REMOVE_JOBS = """
    delete from procrastinate_jobs
    where id = any (array(
        select id from procrastinate_jobs as job
        where status in ('succeeded', 'failed', 'cancelled', 'aborted')
          and coalesce((select max(at) from procrastinate_events where job_id = job.id),
                       '-infinity') < now() - %(older)s::interval
        order by id
        limit %(batch)s
        for update skip locked))
    returning ''
"""
# A task of maintenance that a worker took along when it died.
REMOVE_LEFT_JOBS = """
    delete from procrastinate_jobs
    where id = any (array(
        select id from procrastinate_jobs as job
        where status = 'doing' and lock is null and worker_id is null
          and queue_name = 'maintenance'
          and coalesce((select max(at) from procrastinate_events where job_id = job.id),
                       '-infinity') < now() - %(older)s::interval
        order by id
        limit %(batch)s
        for update skip locked))
    returning ''
"""
# One that is not done yet has no end.
REMOVE_BULKS = """
    delete from bulk
    where ctid = any (array(
        select ctid from bulk
        where finished_at < now() - %(older)s::interval
        order by finished_at
        limit %(batch)s
        for update skip locked))
    returning tenant
"""
REMOVE_WORKERS = """
    delete from worker
    where id = any (array(
        select id from worker where heartbeat_at < now() - %(older)s::interval
        order by heartbeat_at
        limit %(batch)s
        for update skip locked))
    returning ''
"""

HOUR = timedelta(hours=1)
KEPT_BULKS = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Removal:
    """A class of rows, and how old they may become."""

    name: str  # in the log line and in audit entries
    statement: LiteralString
    older: timedelta
    to_the_end: bool = False  # however much there is, since callers add as much as they like


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How long what is kept; None for ever."""

    succeeded: timedelta | None = timedelta(days=7)
    failed: timedelta | None = timedelta(days=90)
    bodies: timedelta = timedelta(hours=24)
    deliveries: timedelta | None = timedelta(days=30)

    @property
    def removals(self) -> list[Removal]:
        """What goes, in turn."""
        windowed: list[tuple[str, LiteralString, timedelta | None]] = [
            ("succeededRuns", REMOVE_SUCCEEDED, self.succeeded),
            ("failedRuns", REMOVE_FAILED, self.failed),
            ("responseBodies", CLEAR_BODIES, self.bodies),
            ("deliveries", REMOVE_DELIVERIES, self.deliveries),
            ("bulkCommands", REMOVE_BULKS, KEPT_BULKS),
            ("versions", REMOVE_VERSIONS, timedelta()),
            ("jobs", REMOVE_JOBS, HOUR),
            ("jobs", REMOVE_LEFT_JOBS, HOUR),
            ("workers", REMOVE_WORKERS, HOUR),
        ]
        kept = [
            Removal(name, statement, older)
            for name, statement, older in windowed
            if older is not None
        ]
        answers = Removal("answers", REMOVE_ANSWERS, KEPT_ANSWERS, to_the_end=True)
        return [*kept, answers]  # behind all that it could hold up
