-- oldest release: 0.1.0
-- transactional: false
-- Lists and counts of a million runs. An index that was left half made is of no use to anybody, and
-- in the way of its name.

-- How many runs stand where: narrow, since equal entries are kept as one. All have a content type:
-- it is said for the sake of those who do not ask for one, such as a claim. They would take the
-- smallest index of a tenant for one of what is due, and read all of it.
drop index concurrently if exists run_standing;
create index concurrently run_standing on run (tenant, content_type, status)
    where content_type <> '';

-- The newest that ended so, and what of them changed. A run is written here once, at its end.
drop index concurrently if exists run_ended;
create index concurrently run_ended on run (tenant, status, created_at desc, id)
    include (updated_at)
    where completed_at is not null;

-- How many runs of a workflow ended so, of which its health takes those that are too old: narrow too.
drop index concurrently if exists run_ended_of_workflow;
create index concurrently run_ended_of_workflow on run (tenant, workflow_id, status)
    where completed_at is not null;

-- In the place of `run_changed`: what changes are filtered by is beside the key.
drop index concurrently if exists run_changes;
create index concurrently run_changes on run (tenant, updated_at, id)
    include (status, workflow_id, content_type);
drop index concurrently if exists run_changed;
