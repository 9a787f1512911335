"""Which action of a due run is next, in a statement's words: the walk of `engine.order`.

A run's row says what was next when it was last written. Only time has passed since then, so what
differs is an action of a lower ordinal that waited then, and whose wait has ended: it goes first.
One that halts would have let none by, so the definition is asked for the type only. Whatever a
document holds, this raises no error: moments are compared as the text that is kept of them. Nor
does it walk further than a workflow has actions: an ordinal may be edited, and a document long.
"""

# By far the most runs have no action that waits. Of the others the document is unpacked once: there
# may be a body in each action that waits, and a step of the walk would unpack all of them.
NEXT_ORDINAL = """
    case when run.due_ordinal > 0 and not run.due_undo
              and jsonb_path_exists(run.actions, '$[*].next_attempt_at')
         then coalesce((
             select (
                 select min(ordinal)
                 from generate_series(0, least(run.due_ordinal, 50) - 1) as ordinal
                 where coalesce(flat.actions -> ordinal ->> 'status', 'Pending') = 'Pending'
                   and rtrim(flat.actions -> ordinal ->> 'next_attempt_at', 'Z') collate "C" <= (
                       select to_char(statement_timestamp() at time zone 'UTC',
                                      'YYYY-MM-DD"T"HH24:MI:SS.US')))
             from (select run.actions #> '{}' as actions offset 0) as flat), run.due_ordinal)
         else run.due_ordinal end
"""
# Its type, where the ordinal is that of `next`.
NEXT_TYPE = """
    case when next.ordinal <> run.due_ordinal then coalesce((
             select used.definition #>> array['actions', next.ordinal::text, 'type']
             from workflow_version as used
             where used.tenant = run.tenant and used.workflow_id = run.workflow_id
               and used.version = run.workflow_version), run.due_type)
         else run.due_type end
"""
