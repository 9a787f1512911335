-- oldest release: 0.1.0
-- transactional: false
-- Turns at what was asked for many runs go round by tenant: when each had its last. An index that
-- was left half made is of no use to anybody, and in the way of its name.

drop index concurrently if exists bulk_turns;
create index concurrently bulk_turns on bulk (tenant, turned_at) where turned_at is not null;
