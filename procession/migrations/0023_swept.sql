-- oldest release: 0.1.0
-- What the sweep that goes on has dealt with, by tenant: each batch is counted in the transaction
-- that takes its rows, and the sweep ends by writing each tenant's audit entry in their place. Of
-- one that was killed, whoever sweeps next writes them.

create table swept (
    tenant text not null,
    class text not null,
    rows bigint not null,
    primary key (tenant, class)
);
