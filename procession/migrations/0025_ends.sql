-- oldest release: 0.1.0
-- transactional: false
-- The newest ends of each workflow with what they spent. It takes the place of
-- `run_finished_of_workflow`, which the release before this one reads by, and which goes with the next.
-- An index that was left half made is of no use to anybody, and in the way of its name.
drop index concurrently if exists run_ends_of_workflow;
create index concurrently run_ends_of_workflow
    on run (tenant, workflow_id, completed_at desc, id) include (status, spent_ms, timed_actions)
    where completed_at is not null;
