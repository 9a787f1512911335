"""What no live worker serves: marked when that is first seen, and failed after ten minutes of it.

Keepers walk along the due runs, a stretch a round and round again. Only minutes that somebody
watched count: where a mark is older than the worker that has watched longest, they begin anew, so
what waited while no worker ran is not failed by the first one that starts.
"""

from datetime import datetime

from procession.engine.run import DOCUMENT_FORMAT, Run, Step, unserved
from procession.engine.workflow import Definition
from procession.queue.leases import SyncConnection
from procession.queue.mend import STRETCH, Place
from procession.queue.rescue import bounded, decide_each
from procession.queue.save import AT_ONCE
from procession.queue.types import Unserved
from procession.queue.walk import NEXT_ORDINAL, NEXT_TYPE

MARKS = 1_000  # the most that one round writes

# A worker whose runner is off serves its types, but it does not watch. A mark is of the type that
# the row says is due: where the walk gives another by now, that is written with it.
MARK = """
    with live as materialized (
        select action_types, claims, started_at from worker
        where heartbeat_at > now() - interval '15 seconds'
    ), watched as materialized (
        select array(select unnest(action_types) from live) as served,
               (select min(started_at) from live where claims) as since
    ), stretch as materialized (
        select tenant, due_at, id, version, due_type, no_worker_since,
               next.ordinal, /* type */ as type
        from run cross join lateral (
            select case when due_at <= now() then /* ordinal */ else due_ordinal end as ordinal
            offset 0
        ) as next
        where due_at is not null
          and (tenant, due_at, id) > (%(tenant)s, coalesce(%(due_at)s::timestamptz, '-infinity'),
                                        %(id)s)
          and executor is null and document_format <= %(format)s
        order by tenant, due_at, id limit %(stretch)s
    ), seen as materialized (
        select stretch.*, watched.since,
               due_at <= now() and type <> all(watched.served) as unserved
        from stretch cross join watched
    ), wrong as materialized (
        select locked.*, seen.unserved, seen.ordinal, seen.type from seen cross join lateral (
            select run.tenant, run.id from run
            where run.tenant = seen.tenant and run.id = seen.id and run.due_at = seen.due_at
              and run.version = seen.version and run.version < 2147483647
            for no key update of run skip locked
        ) as locked
        where case when seen.unserved
                   then seen.no_worker_since is null or seen.no_worker_since < seen.since
                        or seen.type <> seen.due_type
                   else seen.no_worker_since is not null end
        limit %(marks)s
    ), marked as (
        update run
        set no_worker_since = case when wrong.unserved then clock_timestamp() end,
            due_ordinal = wrong.ordinal, due_type = wrong.type,
            version = run.version + 1, updated_at = clock_timestamp()
        from wrong where run.tenant = wrong.tenant and run.id = wrong.id
    )
    select tenant, due_at, id, (select count(*) from stretch) from stretch
    order by tenant desc, due_at desc, id desc limit 1
""".replace("/* ordinal */", NEXT_ORDINAL).replace("/* type */", NEXT_TYPE)


def mark(conn: SyncConnection, place: Place) -> Place:
    """Mark what nobody serves in the next stretch, and unmark the rest; the place to go on from."""
    walked = conn.execute(
        MARK,
        {
            "tenant": place.tenant,
            "due_at": place.due_at,
            "id": place.id,
            "format": DOCUMENT_FORMAT,
            "stretch": STRETCH,
            "marks": MARKS,
        },
    ).fetchone()
    return Place(*walked[:3]) if walked is not None and walked[3] == STRETCH else Place()


# Ten minutes are `engine.waiting.UNSERVED_AFTER`. What is served again keeps its mark until the
# walk comes by, so types are looked at again, of the oldest marks and no more. The coalesce keeps
# the planner from a partial index that was empty when it last looked: seen, 30 s for 20 runs.
# It is decided at the moment that the walk is asked for: a wait may end before the next.
FORSAKEN = (
    bounded("""
    with live as materialized (
        select action_types, claims, started_at from worker
        where heartbeat_at > now() - interval '15 seconds'
    ), watched as materialized (
        select array(select unnest(action_types) from live) as served,
               (select min(started_at) from live where claims) as since
    ), oldest as materialized (
        select tenant, id from run
        where no_worker_since between (select since from watched) and now() - interval '10 minutes'
        order by no_worker_since limit 1000
    )
    select run.tenant, run.id, run.version, used.definition::text, statement_timestamp(),
           run.due_type, run.created_at, run.cancelled_at, run.abandoned_at, run.compensation,
           run.actions, run.outputs
    from oldest cross join watched cross join lateral (
        select * from run
        where run.tenant = oldest.tenant and run.id = oldest.id
          and coalesce(run.no_worker_since <= now() - interval '10 minutes'
                       and run.due_at <= now(), false)
          and run.due_type <> all(watched.served)
          and run.due_type = (
              select /* type */ from (select /* ordinal */ as ordinal offset 0) as next)
          and run.executor is null and run.document_format <= %(format)s
          and run.id <> all(%(unread)s)
        for no key update of run skip locked
    ) as run
    join workflow_version as used
      on used.tenant = run.tenant and used.workflow_id = run.workflow_id
     and used.version = run.workflow_version
    limit %(limit)s
""")
    .replace("/* ordinal */", NEXT_ORDINAL)
    .replace("/* type */", NEXT_TYPE)
)


def fail_unserved(conn: SyncConnection, limit: int = AT_ONCE) -> list[Unserved]:
    """Fail what nobody has served for ten minutes without a break."""
    decided = decide_each(conn, FORSAKEN, limit, _unserved)
    return [Unserved(*one) for one in decided]


def _unserved(run: Run, used: Definition, now: datetime, due_type: str | None) -> Step:
    assert due_type is not None, "the statement asks for it"
    return unserved(run, used, due_type, now=now)
