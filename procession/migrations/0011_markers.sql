-- oldest release: 0.1.0
-- What an action has written, by its idempotency key: an attempt that finds it writes no more.

create table marker (
    tenant text not null,
    run_id uuid not null,
    key text not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (tenant, run_id, key),
    foreign key (tenant, run_id) references run (tenant, id) on delete cascade
);
