-- oldest release: 0.1.0
-- How long the actions of a run that ended took in all, and how many of them say so: what the health
-- of workflows averages, without reading the documents of the newest runs. Both are null where the
-- run ended before there were these columns, and nobody has written it since.

alter table run add column spent_ms bigint, add column timed_actions integer;

-- It is not left to whoever writes a run: a release before this one writes runs too. A document that
-- was edited by hand is no reason to refuse a write.
create function run_notes_what_it_spent() returns trigger language plpgsql as $$
begin
    select coalesce(sum(ms::text::numeric), 0), count(*)
    into new.spent_ms, new.timed_actions
    from jsonb_path_query(new.actions, '$[*].duration_ms ? (@ >= 0 && @ <= 2147483647)') as ms;
    return new;
end
$$;
create trigger run_notes_what_it_spent before insert or update of actions, completed_at on run
    for each row when (new.completed_at is not null)
    execute function run_notes_what_it_spent();
