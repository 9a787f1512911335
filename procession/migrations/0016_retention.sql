-- oldest release: 0.1.0
-- transactional: false
-- The sweep, over all tenants: what of a class ended first. A run is in one of them, from its end.
-- An index that was left half made is of no use to anybody, and in the way of its name.
drop index concurrently if exists run_succeeded_age;
create index concurrently run_succeeded_age on run (completed_at) where status = 'Succeeded';
drop index concurrently if exists run_failed_age;
create index concurrently run_failed_age on run (completed_at)
    where status in ('Failed', 'PartiallyFailed', 'Cancelled');
drop index concurrently if exists procrastinate_jobs_finished;
create index concurrently procrastinate_jobs_finished on procrastinate_jobs (id)
    where status in ('succeeded', 'failed', 'cancelled', 'aborted');
