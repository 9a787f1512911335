"""A database of many runs, as a busy deployment keeps them.

usage: seed.py URL [RUNS]. The database is migrated first, and must have no run; a million takes one
or two minutes. Five tenants, of which `default` holds four fifths of the runs; a hundred workflows
of its own, of which the first holds half of those; entries of which a few change again and again;
ends as old as retention keeps them; a fiftieth is under way or waits. The newest fifth has a
history, and the newest fiftieth was written after the last vacuum.
"""

import sys
import time

import psycopg
from psycopg import sql
from setup import say

from procession.queue.migrate import migrate
from procession.queue.pool import Database

TENANTS = """
    insert into tenant (slug, name)
    select 'tenant-' || number, 'Tenant ' || number from generate_series(1, 4) as number
"""
TYPES = """
    insert into content_type (tenant, name, definition)
    select slug, type, '{"fields": {"Title": {}}, "lifecycle": {"statuses": ["Draft"]}}'
    from tenant, unnest(array['Article', 'Page', 'Product', 'Notice']) as type
"""
ENTRIES = """
    insert into entry (tenant, content_type, id, status, data, created_by, updated_by)
    select slug, 'Article', 'e-' || number, 'Draft', '{"Title": "One"}', actor, actor
    from tenant, generate_series(0, 9999) as number,
         jsonb_build_object('kind', 'Control', 'id', 'bench', 'name', 'bench') as actor
"""
WORKFLOWS = """
    insert into workflow (tenant, id, name)
    select slug, md5(slug || number::text)::uuid, 'Workflow ' || lpad(number::text, 3, '0')
    from tenant, generate_series(0, 99) as number
"""
VERSIONS = """
    insert into workflow_version (tenant, workflow_id, version, definition)
    select tenant, id, 1, json_build_object(
               'name', name, 'trigger_content_types', '["Article"]'::json,
               'trigger_events', '["Updated"]'::json,
               'actions', '[{"type": "Webhook", "parameters": {"Url": "https://hooks.example/a"}},
                            {"type": "Webhook", "parameters": {"Url": "https://hooks.example/b"}}]'
                          ::json)
    from workflow
"""

# The oldest first, as they were queued. Ids are those of version 7 of their time.
RUNS = """
    with drawn as (
        select number, random() as of_tenant, random() as of_workflow, random() as of_type,
               random() as of_entry, random() as of_status, random() as duration
        from generate_series(%(first)s::int, %(last)s::int) as number
    ), placed as (
        select *,
               case when of_tenant < 0.8 then 'default'
                    else 'tenant-' || (1 + floor((of_tenant - 0.8) * 20))::int::text end as tenant,
               case when of_workflow < 0.5 then 0 else floor(of_workflow * 200) - 100 end
                   as workflow,
               case when number > %(runs)s * 0.97 and of_status < 0.33 then 'Pending'
                    when number > %(runs)s * 0.97 and of_status < 0.66 then 'Running'
                    when of_status < 0.95 then 'Succeeded' when of_status < 0.98 then 'Failed'
                    when of_status < 0.9999 then 'PartiallyFailed' else 'Cancelled' end as status
        from drawn
    ), aged as (
        select *, status in ('Pending', 'Running') as is_open,
               clock_timestamp() - (1 - number::float / %(runs)s)
                   * case status when 'Succeeded' then %(succeeded)s else %(failed)s end
                   * interval '1 day' as created_at
        from placed
    )
    insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                     entry_id, trigger, status, created_at, updated_at, completed_at,
                     due_at, due_ordinal, due_type, actions)
    select tenant,
           (lpad(to_hex(floor(extract(epoch from created_at) * 1000)::bigint), 12, '0') || '7'
            || substr(md5(number::text), 1, 3) || '8' || substr(md5(number::text), 4, 15))::uuid,
           md5(tenant || workflow::int::text)::uuid, 1,
           'Workflow ' || lpad(workflow::int::text, 3, '0'),
           case when of_type < 0.7 then 'Article' when of_type < 0.95 then 'Page'
                when of_type < 0.9999 then 'Product' else 'Notice' end,
           'e-' || floor(10000 * of_entry ^ 2)::int::text, 'Updated', status,
           created_at, created_at + duration * interval '3 s',
           case when not is_open then created_at + duration * interval '3 s' end,
           case when is_open then now() + duration * interval '1 hour' end,
           case when is_open then (status = 'Running')::int end,
           case when is_open then 'Webhook' end,
           jsonb_build_array(
               case when status = 'Pending' then '{}'
                    else jsonb_build_object('status', 'Succeeded', 'attempts', 1,
                                            'response_status', 200, 'completed_at', created_at,
                                            'duration_ms', floor(1000 * duration)) end,
               case status
                   when 'Succeeded' then jsonb_build_object(
                       'status', 'Succeeded', 'attempts', 1, 'response_status', 200,
                       'completed_at', created_at, 'duration_ms', floor(1000 * duration))
                   when 'Cancelled' then jsonb_build_object('status', 'Cancelled')
                   when 'Pending' then '{}' when 'Running' then '{}'
                   else jsonb_build_object(
                       'status', 'Failed', 'attempts', 5, 'failures', 5, 'response_status', 503,
                       'error', 'The receiver answered 503.', 'completed_at', created_at) end)
    from aged
"""
ATTEMPTS = """
    insert into attempt (tenant, run_id, ordinal, position, number, outcome, started_at,
                         finished_at, response_status, duration_ms)
    select tenant, id, ordinal, 1, 1, 'Succeeded', created_at, updated_at, 200, 12
    from run, generate_series(0, 1) as ordinal
    where created_at > now() - %(days)s * interval '0.2 day' and completed_at is not null
"""
JOBS = """
    insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, scheduled_at)
    select tenant, 'attempt', 'run:' || id, 'run:' || id,
           jsonb_build_object('run', id, 'ordinal', due_ordinal, 'attempt', 1), due_at
    from run where due_at is not null
"""
INDEXES = """
    select indexrelid::regclass::text, pg_get_indexdef(indexrelid)
    from pg_index where indrelid = 'run'::regclass and not indisunique
"""
PART = 100_000
DAYS = {"succeeded": 7, "failed": 90}  # as runs are kept, unless told otherwise


def seed(url: str, runs: int = 1_000_000) -> None:
    """Migrate the database and fill it with so many runs."""
    migrate(Database(url))
    began = time.monotonic()
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in (TENANTS, TYPES, ENTRIES, WORKFLOWS, VERSIONS, "select setseed(0.5)"):
            conn.execute(statement)
        last = runs - runs // 50
        indexes = conn.execute(INDEXES).fetchall()
        for name, _ in indexes:
            conn.execute(sql.SQL("drop index {}").format(sql.Identifier(name)))
        for first in range(1, last + 1, PART):
            part = {"first": first, "last": min(last, first + PART - 1), "runs": runs}
            conn.execute(RUNS, {**part, **DAYS})
            say(f"{part['last']} of {runs} runs, {time.monotonic() - began:.0f} s")
        for _, definition in indexes:
            conn.execute(definition)
        conn.execute(ATTEMPTS, {"days": DAYS["succeeded"]})
        conn.execute("vacuum analyze")
        conn.execute(RUNS, {"first": last + 1, "last": runs, "runs": runs, **DAYS})
        conn.execute(JOBS)
        conn.execute("checkpoint")
    say(f"{runs} runs, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    seed(sys.argv[1], *map(int, sys.argv[2:3]))
