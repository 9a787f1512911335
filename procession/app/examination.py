"""What the doctor looks at, and what it makes of what it sees."""

import os
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import replace

from procession.app import at_work, compose
from procession.app.environment import unknown
from procession.app.finding import Check, State
from procession.app.settings import Settings
from procession.queue import checkup, first_key, indexes
from procession.queue.fingerprint import COUNTERPART, elsewhere
from procession.queue.migrate import migrations, unusable
from procession.queue.outage import FAULTS
from procession.queue.pool import Connection, make_pool
from procession.queue.reach import out_of_reach

OLDEST_POSTGRES = 150000
CLOCK = 2.0  # seconds that two clocks may differ without anybody wondering at times in logs
POOLER = (
    "A pooler stands between, which hands sessions around or drops their settings: connect to "
    "Postgres."
)
NEW_KEY = (
    "Make one, the same for API and workers: "
    'export SECRETS__KEYS="a:$(head -c 32 /dev/urandom | base64)"'
)

Look = Callable[[Connection, Settings], AsyncGenerator[Check]]


def settings_checks(settings: Settings, faults: Sequence[str] = ()) -> Generator[Check]:
    """Of settings that are each in their range, and of what they get wrong together."""
    for fault in faults:
        helps = NEW_KEY if fault.startswith("SECRETS__KEYS is not set") else ""
        yield Check("settings", State.FAILED, fault, helps)
    strange = unknown(Settings, os.environ)
    for sentence in strange:
        yield Check("settings", State.WARNING, sentence)
    if not strange and not faults:
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
    alone = replace(settings.database, pool_min=1, pool_max=1)
    async with make_pool(alone) as pool, pool.connection() as conn:
        found = await _tried(server_checks, conn, settings)
        found += await _tried(session_checks, conn, settings)
        counterpart = await _tried(_counterpart, conn, settings)
        found += counterpart
        schema = await _tried(_schema, conn, settings)
        if _failed(schema):
            # what is elsewhere needs no schema made here
            return found if _failed(counterpart) else found + schema
        found += schema
        looks: list[Look] = [clock_checks, _keys, at_work.workers, at_work.leases]
        looks += [at_work.jobs, at_work.retention, _indexes]
        for look in looks:
            found += await _tried(look, conn, settings)
        return found


def _failed(checks: Sequence[Check]) -> bool:
    return any(one.state is State.FAILED for one in checks)


async def _tried(look: Look, conn: Connection, settings: Settings) -> list[Check]:
    try:
        return [one async for one in look(conn, settings)]
    except FAULTS as error:
        name = look.__name__.strip("_").removesuffix("_checks")
        return [Check(name, State.FAILED, f"It cannot be looked at: {type(error).__name__}")]


async def server_checks(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
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
    ours = settings.database__schema
    is_here = session.schema in {None, ours}  # None: it is not made yet
    is_ours = is_here and session.zone == "UTC" and session.timeout == timeout
    elsewhere = "" if is_here else f": what follows is of the schema {session.schema}, not {ours}"
    hears = await checkup.hears(settings.database)
    yield Check(
        "session",
        State.OK if is_ours else State.FAILED,
        "Settings of a session arrive"
        if is_ours
        else f"Settings of a session do not arrive{elsewhere}",
        "" if is_ours else POOLER,
    )
    yield Check(
        "notifications",
        State.OK if hears else State.WARNING,
        "They arrive" if hears else "They do not arrive: work begins at the next poll, in a second",
        "" if hears else POOLER,
    )


async def _counterpart(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    """As an API or a worker that begins here would find it."""
    ours, keys = settings.database__schema, compose.ring(settings).digests
    met = True
    for process, refused in COUNTERPART.items():
        if theirs := await elsewhere(conn, ours, process, keys):
            met = False
            yield Check(
                "counterpart",
                State.FAILED,
                f"DATABASE__SCHEMA={ours}: the {process} that shares a key of SECRETS__KEYS works "
                f"in the schema {theirs}, so that a {refused} refuses to start here",
                f"Set DATABASE__SCHEMA={theirs}. Two installations in one database take keys of "
                f"their own; if {theirs} is no longer in use, drop it.",
            )
    if met:
        yield Check("counterpart", State.OK, "None works in another schema of this database")


async def _schema(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
    fault = await unusable(conn)
    yield Check(
        "schema",
        State.FAILED if fault else State.OK,
        fault or f"It has all {len(migrations())} migrations of this release",
    )


async def clock_checks(conn: Connection, _: Settings) -> AsyncGenerator[Check]:
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
    if not settings.secrets__keys:  # which is told of already
        return
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


async def _indexes(conn: Connection, settings: Settings) -> AsyncGenerator[Check]:
    found = await indexes.look(conn)
    told = {"Left half made": found.half_made, "Missing": found.missing}
    faults = [f"{what}: {', '.join(names)}" for what, names in told.items() if names]
    schema = settings.database__schema
    before = [] if schema == "public" else [f'set search_path to "{schema}";']
    yield Check(
        "indexes",
        State.WARNING if faults else State.OK,
        "; ".join(faults) or "All are there and whole",
        f"By psql, beside the work: {' '.join([*before, *found.mends])}" if faults else "",
    )
