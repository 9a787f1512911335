-- oldest release: 0.1.0
-- Other systems that requests are sent to, and what is sent.

create table connector (
    tenant text not null references tenant,
    slug text not null,
    definition jsonb not null,
    secrets jsonb not null default '{}',    -- sealed, by their names
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),  -- tokens of an earlier state are not used
    primary key (tenant, slug)
);

create table request_definition (
    tenant text not null,
    slug text not null,
    connector_slug text not null,
    definition jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant, slug),
    foreign key (tenant, connector_slug) references connector (tenant, slug)
);

create index request_definition_of_connector on request_definition (tenant, connector_slug);

-- By which workers know that they have the key that the API seals with.
create table first_key (
    is_only boolean primary key default true check (is_only),
    digest bytea not null,
    noted_at timestamptz not null default now()
);
