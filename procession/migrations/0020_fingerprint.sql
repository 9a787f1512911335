-- oldest release: 0.1.0
-- Who has begun to work in this schema, by the keys that they hold. An API and a worker that share
-- one, and were set to different schemas of a database, would each wait for the other for ever.
create table fingerprint (
    process text primary key,
    keys bytea[] not null,                  -- digests
    noted_at timestamptz not null default now(),
    constraint a_process_is_known check (process in ('api', 'worker'))
);
