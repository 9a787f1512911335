"""Jobs as the runs call for them: one that is missing is made, one too many is taken away.

The run's row is the truth and its job a reminder, so a job may be lost, doubled or left behind. The
keeper walks along the runs and the jobs, a stretch a round and round again: up to 5,000 unfinished
runs are looked at in every round, and more of them in as many rounds as they are times that.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from procession.queue.leases import SyncConnection

LEAST = UUID(int=0)
STRETCH = 5_000  # rows a round: some 20 ms


@dataclass(frozen=True, slots=True)
class Place:
    """How far the walks have come: the last run and the last job that were looked at."""

    tenant: str = ""
    due_at: datetime | None = None
    id: UUID = LEAST
    lock: str = "run:"


MAKE = """
    with stretch as materialized (
        select tenant, id, due_at from run
        where due_at is not null
          and (tenant, due_at, id) > (%(tenant)s, coalesce(%(due_at)s::timestamptz, '-infinity'),
                                        %(id)s)
        order by tenant, due_at, id limit %(stretch)s
    ), bare as materialized (
        select found.* from stretch cross join lateral (
            select run.tenant, run.id, run.due_at, run.due_ordinal from run
            where run.tenant = stretch.tenant and run.id = stretch.id
              and run.due_at = stretch.due_at
              and (select job.id from procrastinate_jobs as job
                   where job.queueing_lock = 'run:' || run.id and job.status = 'todo') is null
            for no key update of run skip locked
        ) as found
    ), made as (
        insert into procrastinate_jobs
               (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
        select tenant, 'attempt', 'run:' || id, 'run:' || id,
               jsonb_build_object('run', id, 'ordinal', due_ordinal), due_at
        from bare
        on conflict (queueing_lock) where status = 'todo' do nothing
    )
    select tenant, due_at, id, (select count(*) from stretch) from stretch
    order by tenant desc, due_at desc, id desc limit 1
"""
CLEAR_WAITING = """
    with stretch as materialized (
        select id, queue_name, queueing_lock from procrastinate_jobs
        where status = 'todo' and queueing_lock > %(lock)s and queueing_lock < 'run;'
        order by queueing_lock limit %(stretch)s
    ), cleared as (
        delete from procrastinate_jobs as job using stretch
        where job.id = stretch.id and job.status = 'todo'
          and (select run.due_at from run
               where run.tenant = stretch.queue_name
                 and run.id = case when stretch.queueing_lock ~ '^run:[0-9a-f-]{36}$'
                                   then substr(stretch.queueing_lock, 5)::uuid end) is null
    )
    select queueing_lock, (select count(*) from stretch) from stretch
    order by queueing_lock desc limit 1
"""
# One in doing whose run is not in flight would keep the run from being claimed.
CLEAR_DOING = """
    delete from procrastinate_jobs as job
    where job.status = 'doing' and job.lock > 'run:' and job.lock < 'run;'
      and (select run.lease_token from run
           where run.tenant = job.queue_name
             and run.id = case when job.lock ~ '^run:[0-9a-f-]{36}$'
                               then substr(job.lock, 5)::uuid end) is null
"""


def mend(conn: SyncConnection, place: Place) -> Place:
    """Put the jobs of the next stretch right; the place to go on from."""
    conn.execute(CLEAR_DOING)
    made = conn.execute(
        MAKE,
        {
            "tenant": place.tenant,
            "due_at": place.due_at,
            "id": place.id,
            "stretch": STRETCH,
        },
    ).fetchone()
    cleared = conn.execute(CLEAR_WAITING, {"lock": place.lock, "stretch": STRETCH}).fetchone()
    after = Place()
    if made is not None and made[3] == STRETCH:
        after = Place(*made[:3])
    if cleared is not None and cleared[1] == STRETCH:
        after = replace(after, lock=cleared[0])
    return after
