"""Verbs for many runs: nothing twice, nothing by two, and nothing that stops the rest."""

import asyncio
from datetime import timedelta

import pytest
from fix_queue import jobs_that_differ
from fix_runs import EPOCH, add_run, add_workflow, until_blocked

from procession.engine.access import Actor, ActorKind
from procession.engine.bulk import Order, Verb
from procession.engine.errors import ConflictError, NotFoundError
from procession.engine.run import Action, RunStatus, Status
from procession.queue import audit, bulk, bulk_batch, bulk_turn
from procession.queue.audit import By, Sought
from procession.queue.bulk import Chosen
from procession.queue.runs import Span
from procession.tasks.bulk import Bulker
from procession.tasks.retention import Sweeper, swept

FAILED = (
    Action(status=Status.FAILED, attempts=5, failures=5, retryable=True),
    Action(status=Status.SKIPPED, halted_by=0),
)
ASKER = By(Actor(kind=ActorKind.USER, id="u-1", name="Ann"), "10.0.0.9")
BROKEN = Chosen(status=(RunStatus.FAILED, RunStatus.PARTIALLY_FAILED))
OPEN = Chosen(status=(RunStatus.PENDING, RunStatus.RUNNING))


async def ask(conn, verb=Verb.RETRY, chosen=BROKEN, tenant="default", **order):
    return await bulk.ask(conn, tenant, ASKER, Order(verb=verb, **order), chosen)


async def standing(conn, one, tenant="default"):
    return await bulk.one(conn, tenant, one.id)


async def statuses(conn):
    cursor = await conn.execute("select status, count(*) from run group by 1")
    return dict(await cursor.fetchall())


async def noted(conn, tenant="default"):
    entries, _ = await audit.page(conn, tenant, Sought(action="workflow.runs.bulk"), Span(10, 0))
    return entries


async def failed_runs(conn, workflow_id, count, tenant="default"):
    return [
        await add_run(
            conn,
            workflow_id,
            *FAILED,
            tenant=tenant,
            created_at=EPOCH + timedelta(minutes=one // 3),
        )
        for one in range(count)
    ]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of four, so that a few runs make many."""
    monkeypatch.setattr(bulk_turn, "BATCH", 4)


async def test_every_run_is_done_once_and_noted_once(conn, workflow_id):
    await failed_runs(conn, workflow_id, 11)  # three of them of each moment
    one = await ask(conn)

    assert one.matched == 11
    assert await bulk_turn.turn(conn) == 11
    assert await bulk_turn.turn(conn) is None

    after = await standing(conn, one)
    assert (after.status, after.done, after.changed, after.refused) == ("Done", 11, 11, {})
    assert await statuses(conn) == {"Pending": 11}
    assert await jobs_that_differ(conn) == []
    (entry,) = await noted(conn)
    assert (entry.actor, entry.ip, entry.target_id) == (ASKER.actor, ASKER.ip, str(one.id))
    assert entry.metadata == {
        "verb": "Retry",
        "filter": {"status": ["Failed", "PartiallyFailed"]},
        "status": "Done",
        "matched": 11,
        "done": 11,
        "changed": 11,
        "refused": {},
    }


async def test_what_is_refused_is_counted_by_its_code(conn, workflow_id):
    off = await add_workflow(conn, enabled=False)
    for flow in (workflow_id, off, off):
        await add_run(conn, flow, *FAILED)
    await add_run(conn, workflow_id, Action(status=Status.UNKNOWN), Action(status=Status.UNKNOWN))
    one = await ask(conn)

    await bulk_turn.turn(conn)

    after = await standing(conn, one)
    assert (after.done, after.changed) == (4, 1)
    assert after.refused == {"workflow-disabled": 2, "nothing-to-retry": 1}


async def test_what_changes_nothing_is_not_noted(conn, workflow_id):
    await add_run(
        conn,
        workflow_id,
        Action(status=Status.SUCCEEDED),
        Action(status=Status.FAILED, retryable=False),
    )
    one = await ask(conn, Verb.CANCEL, BROKEN)

    await bulk_turn.turn(conn)

    after = await standing(conn, one)
    assert (after.status, after.refused) == ("Done", {"run-finished": 1})
    assert await noted(conn) == []


async def test_nobody_elses_runs_are_touched_and_none_that_came_later(conn, workflow_id):
    theirs = await add_workflow(conn, tenant="globex")
    await failed_runs(conn, theirs, 3, tenant="globex")
    await add_run(conn, workflow_id, *FAILED)
    one = await ask(conn)
    await conn.execute("update bulk set created_at = clock_timestamp() - interval '1 s'")
    cursor = await conn.execute("select now()")
    ((now,),) = await cursor.fetchall()
    late = await add_run(conn, workflow_id, *FAILED, created_at=now)

    await bulk_turn.turn(conn)

    assert (await standing(conn, one)).changed == 1
    cursor = await conn.execute(
        "select tenant, id from run where status = 'Failed' and tenant <> 'globex'"
    )
    assert await cursor.fetchall() == [("default", late)]
    assert await statuses(conn) == {"Failed": 4, "Pending": 1}


@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({}, 4),
        ({"entry_id": "b-1"}, 1),
        ({"content_type": "Page"}, 1),
        ({"created_from": EPOCH + timedelta(days=1)}, 1),
        ({"created_before": EPOCH + timedelta(days=1)}, 3),
    ],
)
async def test_each_filter_narrows_the_count_and_the_deed(conn, workflow_id, more, count):
    await add_run(conn, workflow_id, *FAILED)
    await add_run(conn, workflow_id, *FAILED, entry_id="b-1")
    await add_run(conn, workflow_id, *FAILED, content_type="Page")
    await add_run(conn, workflow_id, *FAILED, created_at=EPOCH + timedelta(days=1))
    await add_run(conn, await add_workflow(conn), *FAILED, entry_id="c-1")
    chosen = Chosen(status=BROKEN.status, workflow_id=workflow_id, **more)

    one = await ask(conn, chosen=chosen)
    await bulk_turn.turn(conn)

    after = await standing(conn, one)
    assert (one.matched, after.done, after.changed) == (count, count, count)


async def test_what_was_cut_off_goes_on_where_it_was_and_repeats_nothing(conn, pool, workflow_id):
    await failed_runs(conn, workflow_id, 10)
    one = await ask(conn)
    async with pool.connection() as dying:
        taken = await bulk_turn.take(dying)
        assert await bulk_turn.batch(dying, taken, 4) == 4
        cursor = await conn.execute("select pg_terminate_backend(%s)", [dying.info.backend_pid])
        await cursor.fetchall()

    assert await bulk_turn.turn(conn) is None  # the lease is its holder's still
    await conn.execute("update bulk set lease_until = now() - interval '1 s'")
    assert await bulk_turn.turn(conn) == 6

    assert (await standing(conn, one)).changed == 10
    cursor = await conn.execute("select version, count(*) from run group by 1")
    assert await cursor.fetchall() == [(2, 10)]


async def test_a_worker_whose_token_is_gone_writes_nothing(conn, pool, workflow_id):
    await failed_runs(conn, workflow_id, 6)
    await ask(conn)
    slow = await bulk_turn.take(conn)
    await conn.execute("update bulk set lease_until = now() - interval '1 s'")
    async with pool.connection() as other:
        assert await bulk_turn.take(other) is not None

    assert await bulk_turn.batch(conn, slow, 4) is None
    assert await statuses(conn) == {"Failed": 6}


async def test_eight_workers_at_once_do_each_run_once(conn, pool, workflow_id):
    await failed_runs(conn, workflow_id, 30)
    asked = [await ask(conn) for _ in range(3)]

    async def work():
        async with pool.connection() as one:
            while await bulk_turn.turn(one, 0.01) is not None:
                pass

    while await bulk_turn.waits(conn):
        await asyncio.gather(*(work() for _ in range(8)))

    ended = [await standing(conn, one) for one in asked]
    assert all(one.changed <= one.done <= one.matched == 30 for one in ended)
    assert sum(one.changed for one in ended) == 30
    cursor = await conn.execute("select distinct version from run")
    assert await cursor.fetchall() == [(2,)]
    assert await jobs_that_differ(conn) == []


async def test_a_stop_ends_it_between_two_batches(conn, workflow_id):
    await failed_runs(conn, workflow_id, 9)
    one = await ask(conn)
    taken = await bulk_turn.take(conn)
    await bulk_turn.batch(conn, taken, 4)

    stopped = await bulk.stop(
        conn, "default", one.id, By(Actor(kind=ActorKind.USER, id="u-2", name="Bo"))
    )

    assert (stopped.status, stopped.changed) == ("Stopped", 4)
    assert await bulk_turn.batch(conn, taken, 4) is None
    assert await bulk_turn.turn(conn) is None
    assert await statuses(conn) == {"Failed": 5, "Pending": 4}
    (entry,) = await noted(conn)
    assert entry.actor == ASKER.actor
    assert (entry.metadata["status"], entry.metadata["stoppedBy"]) == ("Stopped", "u-2")


async def test_a_stop_is_of_ones_own_tenant(conn, workflow_id):
    await failed_runs(conn, workflow_id, 1)
    one = await ask(conn)

    with pytest.raises(NotFoundError):
        await bulk.stop(conn, "globex", one.id, ASKER)

    assert (await standing(conn, one)).status == "Queued"


async def test_a_stop_waits_for_the_batch_that_is_going_on(conn, pool, workflow_id):
    await failed_runs(conn, workflow_id, 4)
    one = await ask(conn)
    taken = await bulk_turn.take(conn)
    async with pool.connection() as other, pool.connection() as third:
        async with conn.transaction():
            await bulk_turn.hold(conn, taken)
            stopping = asyncio.create_task(bulk.stop(other, "default", one.id, ASKER))
            await until_blocked(third)
            assert await bulk_turn.batch(conn, taken, 4) == 4
        stopped = await stopping

    assert stopped.changed == 4


async def test_a_run_that_cannot_be_read_is_passed_over_and_counted(conn, workflow_id):
    ids = await failed_runs(conn, workflow_id, 9)
    await conn.execute(
        """update run set actions = '[{"status": "Odd"}, {"status": "Odd"}]' where id = %s""",
        [ids[5]],
    )
    one = await ask(conn)

    await bulk_turn.turn(conn)

    after = await standing(conn, one)
    assert (after.status, after.done, after.changed) == ("Done", 9, 8)
    assert after.refused == {"run-changed": 1}


@pytest.mark.parametrize("code", ["22003", "54000"])  # a number, or the whole, is too large
async def test_a_run_that_cannot_be_written_is_passed_over_and_counted(conn, workflow_id, code):
    ids = await failed_runs(conn, workflow_id, 9)
    await conn.execute(
        f"""create function refuse() returns trigger language plpgsql as
                $$ begin raise exception 'no' using errcode = '{code}'; end $$;
            create trigger refuse before update on run
                for each row when (old.id = '{ids[5]}') execute function refuse()"""
    )
    one = await ask(conn)

    await bulk_turn.turn(conn)
    await conn.execute("drop trigger refuse on run; drop function refuse()")

    after = await standing(conn, one)
    assert (after.status, after.done, after.changed) == ("Done", 9, 8)
    assert after.refused == {"internal-error": 1}


async def test_no_more_large_documents_are_read_at_once_than_there_is_room_for(
    conn, workflow_id, monkeypatch
):
    await failed_runs(conn, workflow_id, 3)
    await conn.execute(
        """update run set actions = jsonb_set(actions, '{0,body}', to_jsonb(
               (select string_agg(md5(random()::text), '') from generate_series(1, 200))))"""
    )
    monkeypatch.setattr(bulk_batch, "LARGE", 8_000)  # of 6,400 each
    one = await ask(conn)
    taken = await bulk_turn.take(conn)

    done = [await bulk_turn.batch(conn, taken, 4) for _ in range(3)]

    assert done == [2, 1, None]
    assert (await standing(conn, one)).changed == 3


async def test_a_run_of_a_newer_release_is_left_alone(conn, workflow_id):
    await add_run(conn, workflow_id, *FAILED, document_format=99)
    one = await ask(conn)

    await bulk_turn.turn(conn)

    assert (await standing(conn, one)).refused == {"run-changed": 1}


async def test_no_more_runs_are_dealt_with_than_were_counted(conn, workflow_id):
    await failed_runs(conn, workflow_id, 6)
    one = await ask(conn)
    late = await failed_runs(conn, workflow_id, 9)  # which come to fit when it has been counted

    await bulk_turn.turn(conn)

    after = await standing(conn, one)
    assert (after.status, after.matched, after.done, after.changed) == ("Done", 6, 6, 6)
    assert await statuses(conn) == {"Pending": 6, "Failed": len(late)}
    (entry,) = await noted(conn)
    assert (entry.metadata["matched"], entry.metadata["done"]) == (6, 6)


async def test_what_an_older_release_has_overdone_ends(conn, workflow_id):
    await failed_runs(conn, workflow_id, 6)
    one = await ask(conn)
    await conn.execute("update bulk set done = matched + 1")

    await bulk_turn.turn(conn)

    assert (await standing(conn, one)).status == "Done"
    assert await statuses(conn) == {"Failed": 6}


async def test_turns_go_round_by_tenant_whatever_each_has_asked_for(conn, workflow_id):
    theirs = await add_workflow(conn, tenant="globex")
    await failed_runs(conn, theirs, 1, tenant="globex")
    await failed_runs(conn, workflow_id, 1)
    for _ in range(4):
        await ask(conn)
    await ask(conn, tenant="globex")
    await add_workflow(conn, tenant="acme")
    await ask(conn, tenant="acme")
    taken = []

    while (one := await bulk_turn.take(conn)) is not None:
        taken.append(one.tenant)
        while await bulk_turn.batch(conn, one, 4) is not None:
            pass

    assert taken == ["default", "globex", "acme", "default", "default", "default"]


async def test_who_was_served_last_stands_behind_though_that_has_ended(conn):
    await add_workflow(conn, tenant="globex")
    await ask(conn)
    await bulk_turn.turn(conn)
    await ask(conn)
    await ask(conn, tenant="globex")

    assert (await bulk_turn.take(conn)).tenant == "globex"


async def test_a_tenant_has_so_many_unfinished_and_no_more(conn, pool):
    async def one_more():
        async with pool.connection() as mine:
            return await ask(mine)

    asked = await asyncio.gather(
        *(one_more() for _ in range(bulk.MOST + 3)), return_exceptions=True
    )

    refused = [one for one in asked if isinstance(one, ConflictError)]
    assert [one.code for one in refused] == ["too-many-bulks"] * 3
    await add_workflow(conn, tenant="globex")
    await ask(conn, tenant="globex")
    first = next(one for one in asked if not isinstance(one, ConflictError))
    await bulk.stop(conn, "default", first.id, ASKER)
    await ask(conn)


async def test_turns_go_round_and_each_calls_the_next(conn, pool, workflow_id):
    await failed_runs(conn, workflow_id, 8)
    first, second = await ask(conn), await ask(conn, Verb.ABANDON)
    bulker = Bulker(pool=pool, turn=timedelta(seconds=-1))  # over before it began

    await bulker.work()
    await bulker.work()

    cursor = await conn.execute("select id from bulk order by turned_at")
    assert await cursor.fetchall() == [(first.id,), (second.id,)]
    cursor = await conn.execute(
        "select task_name, queue_name, status from procrastinate_jobs where task_name = 'bulk'"
    )
    assert await cursor.fetchall() == [("bulk", "maintenance", "todo")]


async def test_what_ended_long_ago_is_swept_and_what_has_not_ended_never(conn, pool):
    old, new = await ask(conn), await ask(conn)
    while await bulk_turn.turn(conn) is not None:
        pass
    unfinished = await ask(conn)
    await conn.execute("update bulk set created_at = now() - interval '1 year'")
    for one, days in ((old, 90.01), (new, 89.99)):
        await conn.execute(
            "update bulk set finished_at = now() - make_interval(secs => %s) where id = %s",
            [days * 86_400, one.id],
        )

    counts = await swept(Sweeper(pool=pool))

    cursor = await conn.execute("select id from bulk order by id")
    assert await cursor.fetchall() == [(new.id,), (unfinished.id,)]
    assert counts.total == {"bulkCommands": 1}


async def test_a_cancel_of_what_waits_takes_its_jobs_away(conn, workflow_id):
    for _ in range(6):
        await add_run(conn, workflow_id)
    one = await ask(conn, Verb.CANCEL, OPEN)

    await bulk_turn.turn(conn)

    assert (await standing(conn, one)).changed == 6
    assert await statuses(conn) == {"Cancelled": 6}
    assert await jobs_that_differ(conn) == []
