"""Every statement of the queue: fits the schema, names the tenant, and walks along indexes."""

import importlib
import itertools
import pkgutil
import re
from dataclasses import replace

import pytest
from fix_queue import WANTED

from procession import queue
from procession.queue import claim, mend, unserved
from procession.queue.pool import make_pool

VERB = re.compile(r"\s*(select|insert|update|delete|with)\b", re.IGNORECASE)


def statements():
    """The constants of the queue's modules that are statements, by module and name."""
    for found in pkgutil.iter_modules(queue.__path__):
        module = importlib.import_module(f"{queue.__name__}.{found.name}")
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, str) and VERB.match(value):
                yield pytest.param(value, id=f"{found.name}.{name}")


def numbered(statement):
    """With the parameters as Postgres counts them."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for number, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${number}")
    positions = itertools.count(len(names) + 1)
    statement = re.sub(r"%s", lambda _: f"${next(positions)}", statement)
    return statement.replace("%%", "%")


ALL = list(statements())


@pytest.mark.parametrize("statement", ALL)
async def test_a_statement_fits_the_schema(conn, statement):
    await conn.execute(f"prepare tried as {numbered(statement)}")
    await conn.execute("deallocate tried")


# What serves every tenant, and how a tenant is told all the same.
OF_ALL_TENANTS = {
    "access.FIND_KEY": "a key says whose it is",
    "ahead.MAINTENANCE_WAITS": "tasks that are no run's",
    "ahead.NEXT_DUE": "hops from tenant to tenant",
    "backlog.BEGIN_MEASURING": "of all workers",
    "backlog.MEASURE": "hops from tenant to tenant",
    "backlog.MEASURED": "of all workers",
    "backlog.STOPPED_AFTER": "of the session",
    "bodies.KEEP": "by the keys of what is held",
    "checkup.CLOCK": "of the deployment",
    "checkup.JOBS": "the same",
    "checkup.OVERDUE": "the same",
    "checkup.SERVER": "the same",
    "checkup.SESSION": "the same",
    "checkup.WORK": "the same",
    "claim.CLAIM": "takes them in turn",
    "claim.CAREFUL": "takes them in turn",
    "deliveries.DELIVER": "by what the claims say",
    "fingerprint.NOTE": "of the deployment",
    "fingerprint.SCHEMAS": "the same",
    "fingerprint.TAKE_TURNS": "the same",
    "first_key.NOTE": "of the deployment",
    "first_key.NOTED": "the same",
    "grants.DONE": "rules of the deployment",
    "grants.GRANT": "the same, for all roles",
    "growth.GROWN": "the schema",
    "holders.HOLDERS": "sessions of the database",
    "idempotency.REMOVE_ANSWERS": "anybody's",
    "indexes.FOUND": "the schema",
    "intake.QUEUE": "by the keys of what was held",
    "leases.RENEW": "by the keys of what is held",
    "mend.CLEAR_DOING": "by the name of the queue",
    "mend.CLEAR": "by the name of the queue",
    "migrate.APPLIED": "the schema",
    "migrate.NOTE": "the schema",
    "rekey.RESEAL": "by the keys of what was read",
    "rekey.REWRITE": "the same",
    "rescue.LAPSED": "anybody's",
    "rescue.SWITCHED_OFF": "anybody's",
    "runs.LIVE_WORKERS": "a worker serves all of them",
    "save.SAVE": "by the keys of what was decided",
    "save.SAVE_MANY": "the same",
    "pooled.MINE": "of the session",
    "waiting.BLOCKING": "sessions of the database",
    "waiting.LOCKING": "the same",
    "bulk.QUEUE": "a task that is no run's",
    "bulk_turn.TAKE": "takes them in turn",
    "bulk_turn.UNFINISHED": "whoever's turn it is",
    "rescue.SAVE": "the same",
    "save.DELIVER": "the same",
    "sweep.BEGIN": "of all workers",
    "sweep.TELL": "of all whom a sweep took something from",
    "removal.REMOVE_SUCCEEDED": "anybody's",
    "removal.REMOVE_FAILED": "anybody's",
    "removal.CLEAR_BODIES": "anybody's",
    "removal.REMOVE_DELIVERIES": "anybody's",
    "removal.REMOVE_ANSWERS": "anybody's",
    "removal.REMOVE_BULKS": "anybody's",
    "removal.REMOVE_VERSIONS": "anybody's",
    "removal.REMOVE_JOBS": "tasks that are no run's",
    "removal.REMOVE_LEFT_JOBS": "tasks that are no run's",
    "removal.REMOVE_WORKERS": "a worker serves all of them",
    "sweep.TRY_LOCK": "of all workers",
    "sweep.UNLOCK": "of all workers",
    "save.SAVE_AND_DELIVER": "the same",
    "tenants.PAGE": "the tenants themselves",
    "unserved.FORSAKEN": "anybody's",
    "workers.BEAT": "a worker serves all of them",
    "workers.DESCRIBED": "the same",
    "workers.LEAVE": "a worker serves all of them",
}


def test_every_statement_names_the_tenant():
    nameless = {one.id for one in ALL if "%(tenant)s" not in one.values[0]}

    assert nameless - OF_ALL_TENANTS.keys() == set()


@pytest.fixture
async def seeded(database, make, conn):
    """A connection as a worker has it, on tables with some thousand rows of five tenants."""
    for tenant in ("acme", "bravo", "coral", "delta", "echo"):
        made = await make("Safe", tenant=tenant)
        await made.queue(1500)
        await claim.claim(conn, WANTED, 20)
    await conn.execute(
        """update run set status = 'Succeeded', completed_at = now(), due_at = null,
           due_ordinal = null, due_type = null where tenant in ('delta', 'echo')
           and lease_token is null"""
    )
    await conn.execute(
        """insert into attempt (tenant, run_id, ordinal, position, number, outcome, finished_at)
           select tenant, id, 0, 1, 1, 'Succeeded', now() from run where completed_at is not null"""
    )
    await conn.execute(
        """insert into delivery (tenant, created_at, id, delivery_id, workflow_id, run_id, ordinal,
                                 attempt, event, method, url, request_headers, response_body,
                                 requests_sent, duration_ms)
           select tenant, created_at, id, id, workflow_id, id, 0, 1, 'Created', 'POST',
                  'https://a.example', '{}', case when tenant < 'coral' then 'ok' end, 1, 1
           from run"""
    )
    await conn.execute("analyze")
    async with make_pool(replace(database, prefer_indexes=True)) as pool, pool.connection() as one:
        yield one


LARGE = {"run", "procrastinate_jobs", "attempt", "delivery"}
OF_A_WORKER = {
    "backlog.MEASURE",
    "claim.CLAIM",
    "intake.QUEUE",
    "save.SAVE",
    "late.LATEST",
    "late.WRITTEN",
    "late.LOCK",
    "leases.RENEW",
    "rescue.LAPSED",
    "rescue.SWITCHED_OFF",
    "unserved.MARK",
    "unserved.FORSAKEN",
    "mend.MAKE",
    "mend.CLEAR",
    "mend.CLEAR_DOING",
    "ahead.NEXT_DUE",
    "ahead.MAINTENANCE_WAITS",
    "save.SAVE_AND_DELIVER",
    "bulk_batch.NEXT",
    "bulk_batch.LOCK",
    "deliveries.DELIVER",
    "acting.MARKED",
    "acting.MARK",
    "acting.PROMISE",
    "acting.REFERRED",
    "bodies.KEEP",
    "removal.REMOVE_SUCCEEDED",
    "removal.REMOVE_FAILED",
    "removal.CLEAR_BODIES",
    "removal.REMOVE_DELIVERIES",
    "removal.REMOVE_VERSIONS",
    "removal.REMOVE_LEFT_JOBS",
}


async def test_a_worker_walks_along_indexes(seeded):
    await seeded.execute("set plan_cache_mode = force_generic_plan")
    long = {}
    for one in ALL:
        if one.id in OF_A_WORKER:
            found = await planned(seeded, one.values[0])
            long[one.id] = [read for read in found if is_long(read)]

    assert long == {name: [] for name in OF_A_WORKER}


async def planned(conn, statement):
    """What the statement reads, whatever it is given."""
    text = numbered(statement)
    await conn.execute(f"prepare tried as {text}")
    nulls = ", ".join("null" for _ in set(re.findall(r"\$\d+", text)))
    cursor = await conn.execute(f"explain (format json) execute tried{nulls and f'({nulls})'}")
    ((plan,),) = await cursor.fetchall()
    await conn.execute("deallocate tried")
    return list(reads(plan[0]["Plan"]))


@pytest.mark.parametrize("statement", [mend.MAKE, unserved.MARK, unserved.FORSAKEN])
async def test_a_run_is_found_by_its_key_though_nothing_was_due_when_it_was_planned(
    conn, database, make, statement
):
    made = await make("Safe")
    await made.queue(500)
    await conn.execute(
        """update run set status = 'Succeeded', completed_at = now(), due_at = null,
           due_ordinal = null, due_type = null"""
    )
    await conn.execute("vacuum (analyze) run")  # a partial index that is empty looks free
    await made.queue(5)
    async with make_pool(replace(database, prefer_indexes=True)) as pool, pool.connection() as one:
        await one.execute("set plan_cache_mode = force_generic_plan")
        found = await planned(one, statement)

    assert [one for one in found if one.get("Relation Name") == "run" and is_long(one)] == []
    by_key = [
        (one["Index Name"], one["Index Cond"])
        for one in found
        if one.get("Index Name", "").startswith("run_")
        and " id = " in one.get("Index Cond", "").replace("(", " ")
    ]
    assert by_key
    assert [one for one in by_key if one[0] != "run_pkey" and "due_at = " not in one[1]] == []


async def test_a_claim_looks_at_due_runs_only_though_all_were_when_it_was_planned(
    conn, database, make
):
    await (await make("Safe")).queue(500)
    await conn.execute("analyze")
    async with make_pool(replace(database, prefer_indexes=True)) as pool, pool.connection() as one:
        await one.execute("set plan_cache_mode = force_generic_plan")
        found = await planned(one, claim.CLAIM)

    read = [one for one in found if one.get("Relation Name") == "run" and "Index Cond" in one]
    of_a_tenant = [one["Index Name"] for one in read if "(id = " not in one["Index Cond"]]
    assert set(of_a_tenant) == {"run_due"}


def reads(node):
    yield node
    for below in node.get("Plans", ()):
        yield from reads(below)


def is_long(node):
    """Whether this reads a large table from end to end."""
    if node.get("Relation Name") not in LARGE:
        return False
    if node["Node Type"] in {"Index Scan", "Index Only Scan"}:
        return "Index Cond" not in node
    return node["Node Type"] == "Seq Scan"
