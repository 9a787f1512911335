-- oldest release: 0.1.0
-- What waits, as it was measured last: one row, which every worker shows as its own.

create table backlog (
    is_only boolean primary key default true check (is_only),
    begun_at timestamptz not null,          -- of the last measurement, whatever came of it
    measured_at timestamptz,                -- of the last that succeeded; null before the first
    due_runs bigint not null default 0,
    oldest_due_age double precision not null default 0,     -- seconds, as the next but one
    lapsed_leases bigint not null default 0,
    oldest_lapsed_age double precision not null default 0
);
