-- oldest release: 0.1.0
-- What went out to receivers: a row for each attempt of an action that calls one.
-- It has a life of its own: no run, and nothing that removes runs, is tied to it.

create table delivery (
    tenant text not null,
    created_at timestamptz not null,
    id uuid not null,
    delivery_id uuid not null,              -- the webhook-id: of all attempts of one action
    workflow_id uuid not null,
    run_id uuid not null,
    ordinal integer not null,
    attempt integer not null,
    event text not null,
    method text not null,
    url text not null,                      -- the origin only
    request_headers jsonb not null,         -- those that may let in without their values
    response_status integer,                -- null: no answer came
    response_body text,
    response_body_cleared_at timestamptz,
    requests_sent integer not null,
    duration_ms integer not null,
    error text,
    connector_slug text,
    request_slug text,
    -- The newest come first, so the key is the list too. A row that is written twice meets itself.
    primary key (tenant, created_at, id) include (response_status),
    constraint an_error_is_short check (length(error) <= 500),
    constraint a_cleared_body_is_gone check (
        response_body_cleared_at is null or response_body is null)
);

create index delivery_of_run on delivery (tenant, run_id, created_at, id)
    include (response_status);
create index delivery_of_workflow on delivery (tenant, workflow_id, created_at, id)
    include (response_status);
-- The sweep, over all tenants: what is old, and what of it has a body still.
create index delivery_age on delivery (created_at);
create index delivery_body_age on delivery (created_at) where response_body is not null;

-- When a task that may begin once in an hour began last, on whichever worker.
create table sweep (
    name text primary key,
    begun_at timestamptz not null
);

alter table delivery set (autovacuum_vacuum_scale_factor = 0.05);
