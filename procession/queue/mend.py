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
# A run's name as a lock; what looks like it all but is no id would end the statement.
NAME = "^run:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@dataclass(frozen=True, slots=True)
class Place:
    """How far the walks have come: the last run and the last job that were looked at."""

    tenant: str = ""
    due_at: datetime | None = None
    id: UUID = LEAST
    job: int = 0


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
# A waiting job is of the run in its queueing_lock, one in doing of that in its lock; attempts have
# no others. A claim goes by the queueing_lock, so a lock that is another's is put right.
CLEAR = """
    with stretch as materialized (
        select id, queue_name, task_name, status, lock, queueing_lock,
               case status when 'todo' then queueing_lock when 'doing' then lock end as known_by
        from procrastinate_jobs
        where id > %(job)s
        order by id limit %(stretch)s
    ), ours as materialized (
        select stretch.*,
               coalesce((select case stretch.status when 'todo' then run.due_at is not null
                                                    else run.lease_token is not null end
                         from run
                         where run.tenant = stretch.queue_name
                           and run.id = case when stretch.known_by ~ %(name)s
                                             then substr(stretch.known_by, 5)::uuid end),
                        false) as called_for
        from stretch
        where task_name = 'attempt' or starts_with(lock, 'run:')
           or starts_with(queueing_lock, 'run:')
    ), cleared as (
        delete from procrastinate_jobs as job using ours
        where job.id = ours.id and job.status = ours.status and not ours.called_for
    ), righted as (
        update procrastinate_jobs as job set lock = job.queueing_lock from ours
        where job.id = ours.id and job.status = 'todo' and ours.status = 'todo'
          and ours.called_for and ours.lock is distinct from ours.queueing_lock
    )
    select coalesce(max(id), 0), count(*) from stretch
"""
# One in doing whose run is not in flight would keep the run from being claimed.
CLEAR_DOING = """
    delete from procrastinate_jobs as job
    where job.status = 'doing' and job.lock > 'run:' and job.lock < 'run;'
      and (select run.lease_token from run
           where run.tenant = job.queue_name
             and run.id = case when job.lock ~ %(name)s
                               then substr(job.lock, 5)::uuid end) is null
"""


def mend(conn: SyncConnection, place: Place) -> Place:
    """Put the jobs of the next stretch right; the place to go on from."""
    conn.execute(CLEAR_DOING, {"name": NAME})
    walked = {"job": place.job, "stretch": STRETCH, "name": NAME}
    cleared = conn.execute(CLEAR, walked).fetchone()
    made = conn.execute(
        MAKE,
        {
            "tenant": place.tenant,
            "due_at": place.due_at,
            "id": place.id,
            "stretch": STRETCH,
        },
    ).fetchone()
    after = Place()
    if made is not None and made[3] == STRETCH:
        after = Place(*made[:3])
    if cleared is not None and cleared[1] == STRETCH:
        after = replace(after, job=cleared[0])
    return after
