"""Each list is served by an index, whatever it is filtered by."""

import json
from datetime import timedelta

import pytest
from fix_postgres import one_more
from fix_runs import EPOCH, add_run, add_workflow
from psycopg import AsyncConnection

from procession.engine.run import RunStatus
from procession.queue import (
    audit,
    health_of_workflows,
    manual,
    runs,
    stored_run,
    workflow_changes,
    workflows,
)
from procession.queue.audit import Sought
from procession.queue.migrate import migrate
from procession.queue.pool import make_pool
from procession.queue.runs import Filters, Span

SEED = """
    insert into run (tenant, id, workflow_id, workflow_version, workflow_name, content_type,
                     entry_id, trigger, status, created_at, updated_at, completed_at, actions)
    select tenant, gen_random_uuid(), workflow_id, 1, workflow_name,
           case when i % 50 = 0 then 'Page' else 'Article' end, 'e-' || i % 500, trigger,
           case when i % 100 = 0 then 'Failed' when i % 1000 = 1 then 'Cancelled'
                else 'Succeeded' end,
           created_at + i * interval '1 s', created_at + i * interval '1 s', created_at,
           jsonb_build_array(jsonb_build_object('status', 'Succeeded', 'error', repeat('x', 600)))
    from run, generate_series(1, 5000) as i
"""
MORE = """
    insert into workflow (tenant, id, name)
    select 'default', gen_random_uuid(), 'Workflow ' || i from generate_series(1, 2000) as i
"""


@pytest.fixture(scope="module")
async def seeded(postgres_url):
    """A database full of runs, which no test changes, and the id of one workflow of two of it."""
    with one_more(postgres_url) as database:
        migrate(database)
        async with await AsyncConnection.connect(database.conninfo, autocommit=True) as conn:
            mine = await add_workflow(conn)
            for tenant in ("default", "acme", "globex"):
                await add_run(conn, await add_workflow(conn, tenant=tenant), tenant=tenant)
            await add_run(conn, mine)
            await conn.execute(SEED)
            await conn.execute(MORE)
            for table in ("run", "workflow"):
                await conn.execute(f"vacuum (analyze) {table}")
        yield database, mine


@pytest.fixture
async def full(seeded):
    """A connection to it, set up as those of a process are."""
    async with make_pool(seeded[0]) as pool, pool.connection() as conn:
        yield conn


@pytest.fixture
def mine(seeded):
    return seeded[1]


def scans(node, table=None):
    """Each scan below a node, with the table that it reads."""
    table = node.get("Relation Name", table)
    if "Scan" in node["Node Type"] and node["Node Type"] != "Bitmap Heap Scan":
        yield table, node
    for child in node.get("Plans", ()):
        yield from scans(child, table)


async def nodes(conn, statement):
    """The kinds of the nodes of a plan, from the top down."""
    values = {"tenant": "default", "limit": 50, "offset": 0}
    cursor = await conn.execute(f"explain (format json) {statement}", values)
    (((plan,),),) = await cursor.fetchall()

    def kinds(node):
        yield node["Node Type"]
        for child in node.get("Plans", ()):
            yield from kinds(child)

    return list(kinds(plan["Plan"]))


async def walks(conn, statement, table, **values):
    """The indexes by which the plan finds rows of the table; a scan without a condition whole."""
    values = {"tenant": "default", "limit": 50, "offset": 0, **values}
    cursor = await conn.execute(f"explain (format json) {statement}", values)
    (((plan,),),) = await cursor.fetchall()
    return {
        scan["Index Name"] if "Index Cond" in scan else json.dumps(scan)
        for read, scan in scans(plan["Plan"])
        if read == table
    }


STANDING = {"run_standing"}
BY_TIME = {"run_newest"}
ENDED = {"run_ended"}
OF_WORKFLOW = {"run_of_workflow"}
OF_ENTRY = {"run_of_entry"}
OF_BOTH = ENDED | OF_WORKFLOW | {"run_ended_of_workflow"}
LISTS = [
    ({}, BY_TIME, STANDING),
    ({"status": RunStatus.SUCCEEDED}, BY_TIME | ENDED, STANDING),
    ({"status": RunStatus.FAILED}, ENDED, STANDING),
    ({"status": RunStatus.CANCELLED}, ENDED, STANDING),
    ({"status": RunStatus.PENDING}, {"run_unfinished_of_workflow"}, STANDING),
    ({"content_type": "Page"}, BY_TIME | OF_ENTRY, STANDING),
    ({"content_type": "None"}, STANDING, STANDING),
    ({"content_type": "Page", "status": RunStatus.FAILED}, ENDED | STANDING, STANDING),
    ({"workflow_id": None}, OF_WORKFLOW, OF_WORKFLOW),
    ({"workflow_id": None, "status": RunStatus.CANCELLED}, OF_BOTH, OF_WORKFLOW),
    ({"entry_id": "e-7"}, OF_ENTRY, OF_ENTRY),
    ({"entry_id": "e-7", "content_type": "Page"}, OF_ENTRY, OF_ENTRY),
]


@pytest.mark.parametrize(("given", "listing", "counting"), LISTS)
async def test_a_list_and_its_counts_walk_an_index(full, mine, given, listing, counting):
    filters = Filters(**{name: value or mine for name, value in given.items()})

    listed = await walks(full, runs.narrowed(runs.PAGE, filters), "run", **filters.values)
    counted = await walks(full, runs.counting(filters), "run", **filters.values)

    assert "run_pkey" in listed
    assert listed - {"run_pkey"} <= listing
    assert counted <= counting


@pytest.mark.parametrize("statement", [runs.PAGE, runs.FROM_THE_END])
async def test_either_end_of_a_list_is_near(full, statement):
    kinds = await nodes(full, statement)

    assert kinds[kinds.index("Limit") + 1] == "Index Only Scan"


async def test_all_runs_are_counted_without_reading_one(full):
    kinds = await nodes(full, runs.COUNTS)

    assert kinds[-1] == "Index Only Scan"
    assert "Seq Scan" not in kinds


CHANGES = {"run_changes"}
FOLLOWED = [
    ({}, CHANGES, CHANGES),
    ({"workflow_id": None}, CHANGES, CHANGES),
    ({"status": RunStatus.SUCCEEDED}, CHANGES, CHANGES | ENDED),
    ({"status": RunStatus.CANCELLED}, ENDED, ENDED),
    ({"content_type": "Article"}, CHANGES, CHANGES),
    ({"content_type": "None"}, STANDING, STANDING),
    ({"entry_id": "e-7"}, OF_ENTRY, OF_ENTRY),
]


@pytest.mark.parametrize(("given", "listing", "counting"), FOLLOWED)
async def test_changes_walk_an_index_whatever_they_are_filtered_by(
    full, mine, given, listing, counting
):
    filters = Filters(**{name: value or mine for name, value in given.items()})
    place = {"at": EPOCH, "after": runs.LEAST, **filters.values}

    listed = await walks(full, runs.narrowed(runs.CHANGED, filters), "run", **place)
    counted = await walks(full, runs.narrowed(runs.AHEAD, filters), "run", **place)

    assert listed == listing | {"run_pkey"}
    assert counted <= counting


async def test_the_last_changes_are_found_by_their_time(full, mine):
    for filters in (Filters(), Filters(workflow_id=mine)):
        place = {"at": EPOCH + timedelta(seconds=4990), "after": runs.LEAST, **filters.values}

        listed = await walks(full, runs.narrowed(runs.CHANGED, filters), "run", **place)
        counted = await walks(full, runs.narrowed(runs.AHEAD, filters), "run", **place)

        assert listed == CHANGES | {"run_pkey"}
        assert counted == CHANGES


async def test_single_runs_and_workflows_are_found_by_theirs(full, mine):
    cursor = await full.execute("select id from run limit 1")
    (run_id,) = await cursor.fetchone()
    unfinished = (workflow_changes.LOCK_UNFINISHED, workflow_changes.COUNT_UNFINISHED)

    one = await walks(full, stored_run.ONE, "run", id=run_id)
    by_name = await walks(full, workflows.LIST, "workflow")
    open_ones = [await walks(full, one, "run", workflow_id=mine) for one in unfinished]

    assert one == {"run_pkey"}
    assert by_name == {"workflow_by_name"}
    assert open_ones == [{"run_unfinished_of_workflow"}] * 2


async def test_the_health_of_workflows_and_a_manual_run_walk_theirs(full, mine):
    wish = {"entry_id": "e-7", "workflow_id": mine, "ids": [mine]}

    week = {"window": timedelta(days=7)}
    within = await walks(full, health_of_workflows.PAGE, "run", **week)
    most = await walks(full, health_of_workflows.PAGE_OF_MOST, "run", **week)
    content_types = await walks(full, manual.CONTENT_TYPES, "run", **wish)
    repeated = await walks(full, manual.REPEATED, "run", **wish)

    narrower = {"run_finished_of_workflow"}  # for ends alone, until the next release drops it
    assert within - narrower == {"run_ends_of_workflow"}
    assert most - narrower == {"run_ends_of_workflow", "run_ended_of_workflow"}
    assert content_types <= {"run_of_entry", "run_of_workflow"}
    assert repeated == {"run_pkey"}


NOTES = """
    insert into audit (tenant, id, at, action, target_type, target_id)
    select slug, gen_random_uuid(), %s + i * interval '1 s', 'role.' || i %% 40, 'Role',
           't-' || i %% 700
    from tenant, generate_series(1, 4000) as i
"""
NOTED = [
    ((), "audit_newest"),
    (("since",), "audit_newest"),
    (("since", "until"), "audit_newest"),
    (("action",), "audit_of_action"),
    (("action", "since"), "audit_of_action"),
    (("target_id",), "audit_of_target"),
    (("target_id", "action"), "audit_of_target"),
]


async def test_the_audit_log_walks_an_index(conn):
    await conn.execute("insert into tenant (slug, name) values ('acme', 'A'), ('globex', 'G')")
    await conn.execute(NOTES, (EPOCH,))
    await conn.execute("vacuum (analyze) audit")
    values = {
        "action": "role.7",
        "target_id": "t-7",
        "since": EPOCH + timedelta(seconds=3900),
        "until": EPOCH + timedelta(seconds=3950),
    }
    for names, index in NOTED:
        sought = Sought(**{name: values[name] for name in names})

        for statement in (audit.PAGE, audit.COUNT):
            walked = await walks(conn, audit.narrowed(statement, sought), "audit", **values)

            assert walked <= {index, *({"audit_pkey"} if not names else ())}, names


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_pages_meet_whichever_end_they_are_found_from(conn, workflow_id, size):
    at = [EPOCH + timedelta(seconds=number // 2) for number in range(7)]  # two at a time, or one
    made = [(moment, await add_run(conn, workflow_id, created_at=moment)) for moment in at]
    newest = sorted(made, key=lambda one: (-one[0].timestamp(), one[1]))

    found = [
        await runs.page(conn, "default", Filters(), Span(size, offset), len(made))
        for offset in range(0, len(made) + size, size)
    ]

    assert [one.id for part in found for one in part] == [id_ for _, id_ in newest]
    assert all(len(part) <= size for part in found)
