-- oldest release: 0.1.0
-- Verbs for many runs at once: what was asked for, how far it has come, and who holds it now.

create table bulk (
    tenant text not null references tenant,
    id uuid not null,
    verb text not null,
    unknown boolean not null default false, -- whether a retry takes Unknown actions along
    filter jsonb not null,
    asked_by jsonb,
    ip text,
    created_at timestamptz not null default now(), -- younger runs are left alone
    status text not null default 'Queued',
    matched bigint not null,                -- when it was asked for
    done bigint not null default 0,
    changed bigint not null default 0,
    refused jsonb not null default '{}',    -- how many by code
    finished_at timestamptz,

    -- the last run that it has dealt with: written with what became of it, so none is done twice
    past_at timestamptz,
    past_id uuid,

    -- who works on it; one at a time, and a turn each
    turned_at timestamptz,
    token bigint,
    lease_until timestamptz,

    primary key (tenant, id),
    constraint a_verb_is_known check (verb in ('Retry', 'Cancel', 'Abandon')),
    constraint a_bulk_status_is_known check (status in ('Queued', 'Running', 'Done', 'Stopped')),
    constraint a_finished_bulk_has_an_end check (
        (status in ('Done', 'Stopped')) = (finished_at is not null)),
    constraint a_bulk_lease_is_whole check ((token is null) = (lease_until is null)),
    constraint a_finished_bulk_is_nobodys check (finished_at is null or token is null),
    constraint a_bulk_is_past_a_run check ((past_at is null) = (past_id is null))
);

create index bulk_newest on bulk (tenant, created_at desc, id);
create index bulk_unfinished on bulk (turned_at nulls first, created_at) where finished_at is null;
create index bulk_finished on bulk (finished_at) where finished_at is not null;
