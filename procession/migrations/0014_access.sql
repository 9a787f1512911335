-- oldest release: 0.1.0
-- Rules by which a release gave a new capability to roles that were there: each is done once.

create table granting_rule (
    name text primary key,
    done_at timestamptz not null default now()
);
