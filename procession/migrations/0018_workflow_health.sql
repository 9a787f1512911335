-- oldest release: 0.1.0
-- transactional: false
-- The health of workflows: the newest ends of each, and how many there were of which kind.
drop index concurrently if exists run_finished_of_workflow;
create index concurrently run_finished_of_workflow
    on run (tenant, workflow_id, completed_at desc, id) include (status)
    where completed_at is not null;
