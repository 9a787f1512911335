-- oldest release: 0.1.0
-- Turns at what was asked for many runs go round by tenant: when each had its last.

create index bulk_turns on bulk (tenant, turned_at) where turned_at is not null;
