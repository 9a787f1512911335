-- oldest release: 0.1.0
-- What a POST with an Idempotency-Key was answered, for its repeats.

create table idempotency (
    tenant text not null references tenant,
    request bytea not null,                 -- a digest of caller, route and key
    body bytea not null,                    -- a digest of what was sent
    holder uuid not null,                   -- which request answers it, or has
    since timestamptz not null default now(),   -- when it was begun, and then when it was answered
    answer text,                            -- sealed; null while the first one goes on
    primary key (tenant, request)
);

create index idempotency_age on idempotency (since);
