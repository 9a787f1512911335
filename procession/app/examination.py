"""What the doctor looks at, and what it makes of what it sees."""

import os
from collections.abc import AsyncGenerator, Callable, Generator

from procession.app import compose
from procession.app.environment import unknown
from procession.app.finding import Check, State
from procession.app.settings import Settings
from procession.queue import checkup, first_key
from procession.queue.migrate import migrations, unusable
from procession.queue.outage import FAULTS
from procession.queue.pool import Connection, make_pool
from procession.queue.reach import out_of_reach

OLDEST_POSTGRES = 150000
CLOCK = 2.0  # seconds that two clocks may differ without anybody wondering at times in logs
LAPSED = 60.0  # seconds in which a lapsed lease is rescued, wherever a worker lives
POOLER = "A pooler stands between, in a mode that hands sessions around: connect to Postgres."
DUE = 900.0  # seconds that work may be due


def settings_checks(settings: Settings) -> Generator[Check]:
    """Of settings that are each in their range."""
    strange = unknown(Settings, os.environ)
    for sentence in strange:
        yield Check("settings", State.WARNING, sentence)
    if not strange:
        given = sum(str(field.alias) in os.environ for field in Settings.model_fields.values())
        yield Check("settings", State.OK, f"{given} are set, and fit together")
    needed = settings.workflows__runner_concurrency + 2
    yield Check(
        "pool",
        State.OK,
        f"{settings.database__pool_max} connections of a process; a worker at concurrency "
        f"{needed - 2} needs {needed}",
    )


async def database_checks(settings: Settings) -> list[Check]:
    """Of all that the database shows; no more than that it does not answer, if so."""
    if why := await out_of_reach(settings.database):
        is_pooler = "startup parameter" in why
        helps = POOLER if is_pooler else "Is DATABASE_URL right, and Postgres up?"
        return [Check("database", State.FAILED, why, helps)]
    async with make_pool(settings.database) as pool, pool.connection() as conn:
        found = [one async for one in _server(conn, settings)]
        found += [one async for one in session_checks(conn, settings)]
        schema = await _schema(conn)
        found.append(schema)
        if schema.state is State.FAILED:
            return found
        looks: list[Callable[[Connection, Settings], AsyncGenerator[Check]]] = [
            *(_clock, _keys, _workers, _leases, _jobs, _retention, _indexes)
        ]
        for look in looks:
            found += await _tried(look, conn, settings)
        return found


async def _tried(
    look: Callable[[Connection, Settings], AsyncGenerator[Check]],
    conn: Connection,
    settings: Settings,
) -> list[Check]:
    try:
        return [one async for one in look(conn, settings)]
    except FAULTS as error:
        name = look.__name__.strip("_")
        return [Check(name, State.FAILED, f"It cannot be looked at: {type(error).__name__}")]


async def _server(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    found = await checkup.server(conn)
    is_old = found.number < OLDEST_POSTGRES
    yield Check(
        "database",
        State.FAILED if is_old or found.read_only else State.OK,
        f"Postgres {found.version}{' is only readable' if found.read_only else ' answers'}",
        "It takes Postgres 15 or newer." if is_old else "",
    )
    left = found.most_connections - found.connections
    is_short = left < settings.database__pool_max + 2
    yield Check(
        "connections",
        State.WARNING if is_short else State.OK,
        f"{found.connections} of {found.most_connections} are in use",
        "A worker more, or an API, may find none: lower DATABASE__POOL_MAX, or raise "
        "max_connections."
        if is_short
        else "",
    )


async def session_checks(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    session = await checkup.session(conn)
    timeout = settings.database__statement_timeout_seconds * 1000
    is_ours = session.zone == "UTC" and session.timeout == timeout
    hears = await checkup.hears(settings.database)
    yield Check(
        "session",
        State.OK if is_ours else State.FAILED,
        "Settings of a session arrive" if is_ours else "Settings of a session do not arrive",
        "" if is_ours else POOLER,
    )
    yield Check(
        "notifications",
        State.OK if hears else State.WARNING,
        "They arrive" if hears else "They do not arrive: work begins at the next poll, in a second",
        "" if hears else POOLER,
    )


async def _schema(conn: Connection) -> Check:
    if fault := await unusable(conn):
        return Check("schema", State.FAILED, fault)
    return Check("schema", State.OK, f"It has all {len(migrations())} migrations of this release")


async def _clock(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    clock = await checkup.clock(conn)
    differs = abs(clock.ahead) > CLOCK
    where = "ahead of" if clock.ahead > 0 else "behind"
    yield Check(
        "clock",
        State.WARNING if differs else State.OK,
        f"{abs(clock.ahead):.1f} s {where} the database's, which answers in "
        f"{clock.answer * 1000:.1f} ms",
        "Nothing is decided by it, but times in logs are off: does this machine keep time?"
        if differs
        else "",
    )


async def _keys(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    digest = await first_key.noted(conn)
    if digest is None:
        yield Check("keys", State.OK, "No API has begun here yet")
    elif compose.ring(settings).holds(digest):
        yield Check("keys", State.OK, "SECRETS__KEYS has the key that the API seals with")
    else:
        yield Check(
            "keys",
            State.FAILED,
            "SECRETS__KEYS lacks the key that the API seals with, its first one",
            "Set it to the same in the API and in workers.",
        )


async def _workers(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    work = await checkup.work(conn)
    says = f"{work.workers} live, of which {work.claiming} claim"
    if not work.claiming:
        state = State.FAILED if work.due else State.WARNING
        yield Check("workers", state, says, "Start one: procession worker.")
    else:
        yield Check("workers", State.OK, says)
    late = work.oldest_due > DUE
    yield Check(
        "due",
        State.WARNING if late else State.OK,
        f"{work.due} runs are due, the oldest for {work.oldest_due:.0f} s",
        "A receiver that hangs holds up the others: raise WORKFLOWS__RUNNER_CONCURRENCY."
        if late
        else "",
    )
    if work.unserved:
        yield Check(
            "stuck",
            State.WARNING,
            f"{work.unserved} runs wait for an action type that no live worker serves",
            "Start a worker that has it; after 10 minutes they fail.",
        )


async def _leases(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    work = await checkup.work(conn)
    is_old = work.oldest_lapsed > LAPSED
    yield Check(
        "leases",
        State.FAILED if is_old else State.OK,
        f"{work.lapsed} have lapsed, the oldest {work.oldest_lapsed:.0f} s ago",
        "A live worker rescues them within seconds: does one live, and what does it log?"
        if is_old
        else "",
    )


async def _jobs(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    found = await checkup.jobs(conn)
    differ = found.missing + found.needless
    yield Check(
        "jobs",
        State.WARNING if differ else State.OK,
        f"{found.missing} are missing, {found.needless} belong to no run"
        if differ
        else "Each due run has one",
        "A live worker puts that right; procession doctor --requeue does at once."
        if differ
        else "",
    )


async def _retention(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    work, windows = await checkup.work(conn), compose.windows(settings)
    ages = {
        name: None if age is None else age + checkup.SLACK
        for name, age in (
            ("succeeded", windows.succeeded),
            ("failed", windows.failed),
            ("deliveries", windows.deliveries),
        )
    }
    left = await checkup.overdue(conn, ages)
    if left:
        yield Check(
            "retention",
            State.WARNING,
            f"{left} runs and deliveries are older than their retention and {checkup.SLACK}",
            "The sweep takes 10,000 of a class in an hour: does a worker live, and is that enough?",
        )
    else:
        at = work.swept_at
        begun = f"the last sweep began at {at:%Y-%m-%d %H:%M} UTC" if at else "no sweep has begun"
        yield Check("retention", State.OK, f"Nothing is overdue; {begun}")


async def _indexes(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    invalid = await checkup.invalid_indexes(conn)
    yield Check(
        "indexes",
        State.WARNING if invalid else State.OK,
        f"Left half made: {', '.join(invalid)}" if invalid else "All are whole",
        "Drop them; those that are ours are made by `procession migrate`." if invalid else "",
    )
