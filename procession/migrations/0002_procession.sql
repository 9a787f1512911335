-- oldest release: 0.1.0
-- What Procession keeps: whose it is, what changed, what should follow, and what came of it.
-- A table that belongs to a tenant leads its keys with the tenant.

create table tenant (
    slug text primary key,
    name text not null,
    time_zone text not null default 'UTC',
    currency text not null default 'USD',
    site_url text,
    created_at timestamptz not null default now(),
    -- forty bytes, since a channel of job notices carries it and takes 63 in all
    constraint a_slug_is_short_and_plain check (slug ~ '^[a-z0-9][a-z0-9-]{0,39}$')
);

insert into tenant (slug, name) values ('default', 'Default');

-- A tenant's own roles, and what it added to the built-in ones (whose own rights are in the code).
create table role (
    tenant text not null references tenant,
    name text not null,
    capabilities text[] not null,
    primary key (tenant, name)
);

create table api_key (
    id text primary key,
    tenant text not null references tenant,
    name text not null,
    role text not null,
    secret_digest bytea not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    constraint a_key_is_named_by_twelve_signs check (id ~ '^[A-Za-z0-9]{12}$')
);

create index api_key_of_tenant on api_key (tenant, created_at desc, id);

create table content_type (
    tenant text not null references tenant,
    name text not null,
    definition jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant, name)
);

create table entry (
    tenant text not null,
    content_type text not null,
    id text not null,
    status text not null,
    sensitivity text not null default 'Public',
    data jsonb not null,
    version integer not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    created_by jsonb not null,
    updated_by jsonb not null,
    primary key (tenant, content_type, id),
    foreign key (tenant, content_type) references content_type (tenant, name),
    constraint a_sensitivity_is_known check (sensitivity in ('Public', 'Sensitive', 'Hidden'))
);

-- A deleted workflow stays as a row, so that its runs can be told why they cannot be retried.
create table workflow (
    tenant text not null references tenant,
    id uuid not null,
    name text not null,
    version integer not null default 1,
    enabled boolean not null default true,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    deleted_at timestamptz,
    primary key (tenant, id)
);

-- The keeper: the rest of their runs is cancelled.
create index workflow_switched_off on workflow (tenant, id) where not enabled;
create index workflow_by_name on workflow (tenant, name, id) where deleted_at is null;

-- Immutable: a save writes the next one, and a run reads the one that it was queued with.
create table workflow_version (
    tenant text not null,
    workflow_id uuid not null,
    version integer not null,
    definition json not null,               -- not jsonb: the order of the conditions is kept
    created_at timestamptz not null default now(),
    primary key (tenant, workflow_id, version),
    foreign key (tenant, workflow_id) references workflow (tenant, id)
);

-- What matches what: the current version's lists, spelt out. None of a deleted workflow.
create table workflow_trigger (
    tenant text not null,
    content_type text not null,
    event text not null,
    workflow_id uuid not null,
    primary key (tenant, content_type, event, workflow_id),
    foreign key (tenant, workflow_id) references workflow (tenant, id)
);

create index workflow_trigger_of_workflow on workflow_trigger (tenant, workflow_id);

-- One number for each event, and for each lease.
create sequence event_sequence;
create sequence lease_token;

create table run (
    tenant text not null,
    id uuid not null,
    workflow_id uuid not null,
    workflow_version integer not null,
    workflow_name text not null,
    content_type text not null,
    entry_id text not null,
    trigger text not null,
    event_sequence bigint not null default 0,
    event jsonb not null default '{}',      -- who did it and when; the transition's name
    started_by jsonb,
    executor text,
    depth integer not null default 0,
    correlation_id text,
    traceparent text,

    status text not null default 'Pending',
    compensation text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    completed_at timestamptz,
    cancelled_at timestamptz,
    abandoned_at timestamptz,

    -- what the engine says may be claimed next, and when; null when nothing may
    due_at timestamptz,
    due_ordinal integer,
    due_undo boolean not null default false,
    due_type text,

    -- who holds it: on the run, since one action of it is in flight at a time
    lease_token bigint,
    lease_until timestamptz,
    lease_worker uuid,

    version integer not null default 1,     -- every write but a renewal bumps it
    document_format integer not null default 1,
    no_worker_since timestamptz,
    actions jsonb not null,
    outputs jsonb not null default '{}',

    primary key (tenant, id),
    foreign key (tenant, workflow_id, workflow_version)
        references workflow_version (tenant, workflow_id, version),
    constraint a_status_is_known check (
        status in ('Pending', 'Running', 'Succeeded', 'Failed', 'PartiallyFailed', 'Cancelled')),
    constraint a_compensation_is_known check (
        compensation in ('Compensating', 'Compensated', 'Incomplete')),
    constraint a_lease_is_whole check (
        (lease_token is null) = (lease_until is null)
        and (lease_token is null) = (lease_worker is null)),
    constraint a_lease_is_of_a_running_action check (
        (lease_token is not null) = jsonb_path_exists(
            actions, '$[*] ? (@.status == "Running" || @.undo.status == "Running")')),
    constraint a_leased_run_is_not_due check (lease_token is null or due_at is null),
    constraint a_due_run_says_what_is_due check (
        (due_at is null) = (due_ordinal is null) and (due_at is null) = (due_type is null)),
    constraint a_finished_run_is_not_due check (completed_at is null or due_at is null),
    constraint a_finished_run_has_an_end check (
        (status in ('Pending', 'Running')) = (completed_at is null)),
    constraint an_unfinished_run_is_due_or_held check (
        completed_at is not null or due_at is not null or lease_token is not null)
) with (fillfactor = 85);

-- The pick: finds and orders in one, and holds unfinished runs only.
create index run_due on run (tenant, due_at, id) where due_at is not null;
-- The keeper: rescue and renewal.
create index run_lease on run (lease_until) where lease_token is not null;
-- The keeper: what nobody serves. Few runs are in it, and no attempt writes it.
create index run_unserved on run (no_worker_since) where no_worker_since is not null;
create index run_unfinished_of_workflow on run (tenant, workflow_id, id) where completed_at is null;
-- Lists and counts: what they filter by beside the key is included, so that they read no run that
-- is not shown. Every write of a run writes these anyway, since due_at and updated_at are indexed.
create index run_newest on run (tenant, created_at desc, id) include (status, content_type);
create index run_of_workflow on run (tenant, workflow_id, created_at desc, id)
    include (status, content_type);
create index run_of_entry on run (tenant, entry_id, content_type, created_at desc, id)
    include (status, workflow_id);
create index run_changed on run (tenant, updated_at, id);

-- Append-only history; the newest twenty of an action, and of its undo, are kept.
-- position counts the entries from 1, so what is dropped shows in the oldest one kept.
create table attempt (
    tenant text not null,
    run_id uuid not null,
    ordinal integer not null,
    undo boolean not null default false,
    position integer not null,
    number integer not null,
    outcome text not null,
    started_at timestamptz,
    finished_at timestamptz not null,
    response_status integer,
    error text,
    retryable boolean,
    duration_ms integer,
    primary key (tenant, run_id, ordinal, undo, position),
    foreign key (tenant, run_id) references run (tenant, id) on delete cascade,
    constraint an_outcome_is_known check (outcome in (
        'Succeeded', 'Retried', 'Failed', 'Unknown', 'Skipped', 'Lost', 'Released', 'Discarded')),
    constraint an_error_is_short check (length(error) <= 500)
);

create table audit (
    tenant text not null references tenant,
    id uuid not null,
    at timestamptz not null default clock_timestamp(),
    action text not null,
    actor jsonb,
    target_type text not null,
    target_id text not null,
    metadata jsonb not null default '{}',
    ip text,
    primary key (tenant, id)
);

create index audit_newest on audit (tenant, at desc, id);
create index audit_of_action on audit (tenant, action, at desc, id);
create index audit_of_target on audit (tenant, target_id, at desc, id) include (action);

create function audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'The audit log is append-only' using errcode = 'restrict_violation';
end
$$;

create trigger audit_is_append_only before update or delete or truncate on audit
    for each statement execute function audit_is_append_only();

-- One row a live worker, for all tenants.
create table worker (
    id uuid primary key,
    release text not null,
    document_format integer not null,
    action_types text[] not null,
    claims boolean not null,
    started_at timestamptz not null default now(),
    heartbeat_at timestamptz not null default now()
);

-- Jobs come and go at the pace of attempts.
alter table procrastinate_jobs set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table procrastinate_events set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table run set (autovacuum_vacuum_scale_factor = 0.05);

-- An attempt's history is ours to keep, and its job is deleted with its outcome: a row of events for
-- each of its steps would only be written to be removed. Other tasks keep theirs.
drop trigger procrastinate_trigger_status_events_insert_v1 on procrastinate_jobs;
create trigger procrastinate_trigger_status_events_insert_v1
    after insert on procrastinate_jobs
    for each row when (new.status = 'todo' and new.task_name <> 'attempt')
    execute procedure procrastinate_trigger_function_status_events_insert_v1();
drop trigger procrastinate_trigger_status_events_update_v1 on procrastinate_jobs;
create trigger procrastinate_trigger_status_events_update_v1
    after update of status on procrastinate_jobs
    for each row when (new.task_name <> 'attempt')
    execute procedure procrastinate_trigger_function_status_events_update_v1();
drop trigger procrastinate_trigger_scheduled_events_v1 on procrastinate_jobs;
create trigger procrastinate_trigger_scheduled_events_v1
    after update or insert on procrastinate_jobs
    for each row when (new.scheduled_at is not null and new.status = 'todo' and new.task_name <> 'attempt')
    execute procedure procrastinate_trigger_function_scheduled_events_v1();
drop trigger procrastinate_trigger_delete_jobs_v1 on procrastinate_jobs;
create trigger procrastinate_trigger_delete_jobs_v1
    before delete on procrastinate_jobs
    for each row when (old.task_name <> 'attempt')
    execute procedure procrastinate_unlink_periodic_defers_v1();
