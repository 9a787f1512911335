-- oldest release: 0.1.0
-- What each worker says of the types it serves, for an API that lacks the package of one.
alter table worker add column described jsonb not null default '{}';
