"""What can be seen of an installation from its database: read, and nothing changed.

Each is one look, so that one which fails does not keep the others from telling.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import time
from typing import LiteralString, TypeVar
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from procession.queue.mend import NAME
from procession.queue.pool import Connection, Database

Seen = TypeVar("Seen")

PATIENCE = 2.0  # seconds for a notification: one that comes takes some milliseconds


async def _look(
    conn: Connection,
    kind: type[Seen],
    statement: LiteralString,
    values: Mapping[str, object] | None = None,
) -> Seen:
    async with conn.cursor(row_factory=class_row(kind)) as cursor:
        seen = await (await cursor.execute(statement, values)).fetchone()
    assert seen is not None  # a select without a table
    return seen


SERVER = """
    select current_setting('server_version') as version,
           current_setting('server_version_num')::int as number,
           current_setting('max_connections')::int as most_connections,
           (select count(*)::int from pg_stat_activity where backend_type = 'client backend')
             as connections,
           pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool
             as read_only
"""


@dataclass(frozen=True, slots=True)
class Server:
    """The Postgres that was found."""

    version: str
    number: int
    most_connections: int
    connections: int
    read_only: bool


async def server(conn: Connection) -> Server:
    return await _look(conn, Server, SERVER)


SESSION = """
    select current_schema() as schema, current_setting('timezone') as zone,
           (select setting::int from pg_settings where name = 'statement_timeout') as timeout
"""


@dataclass(frozen=True, slots=True)
class Session:
    """What arrived of what every session of ours is set to."""

    schema: str | None
    zone: str
    timeout: int  # milliseconds


async def session(conn: Connection) -> Session:
    return await _look(conn, Session, SESSION)


async def hears(database: Database) -> bool:
    """Whether a notification arrives. Through a pooler that hands sessions around it does not."""
    channel = Identifier(f"procession_doctor_{uuid4().hex}")
    async with (
        await AsyncConnection.connect(database.conninfo, autocommit=True) as listener,
        await AsyncConnection.connect(database.conninfo, autocommit=True) as sayer,
    ):
        await listener.execute(SQL("listen {}").format(channel))
        await sayer.execute(SQL("notify {}").format(channel))
        async for _ in listener.notifies(timeout=PATIENCE, stop_after=1):
            return True
    return False


CLOCK = "select extract(epoch from clock_timestamp())::float8"
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Clock:
    """How this machine's clock differs from the database's, and how long an answer takes."""

    ahead: float  # seconds
    answer: float


async def clock(conn: Connection) -> Clock:
    """Of a few looks the quickest, which is the most exact."""
    looks: list[Clock] = []
    for _ in range(ROUNDS):
        began = time()
        row = await (await conn.execute(CLOCK)).fetchone()
        assert row is not None  # a select without a table
        ended = time()
        looks.append(Clock((began + ended) / 2 - row[0], ended - began))
    return min(looks, key=lambda one: one.answer)


WORK = """
    select
        (select count(*) from worker where heartbeat_at > now() - interval '15 seconds')
          as workers,
        (select count(*) from worker
         where heartbeat_at > now() - interval '15 seconds' and claims) as claiming,
        (select count(*) from run where due_at is not null and due_at <= now()) as due,
        (select coalesce(extract(epoch from now() - min(due_at)), 0)::float8 from run
         where due_at <= now() and due_at > '-infinity') as oldest_due,
        (select count(*) from run where lease_token is not null and lease_until < now()) as lapsed,
        (select coalesce(extract(epoch from now() - min(lease_until)), 0)::float8 from run
         where lease_token is not null and lease_until < now() and lease_until > '-infinity')
          as oldest_lapsed,
        (select count(*) from run where no_worker_since is not null) as unserved,
        (select begun_at from sweep where name = 'retention') as swept_at,
        now() as now
"""


@dataclass(frozen=True, slots=True)
class Work:
    """Who works, and what has been waiting for how many seconds."""

    workers: int
    claiming: int
    due: int
    oldest_due: float
    lapsed: int
    oldest_lapsed: float
    unserved: int
    swept_at: datetime | None
    now: datetime


async def work(conn: Connection) -> Work:
    return await _look(conn, Work, WORK)


# As `mend` would find them: a run that is due has one job that waits, a job a run that calls for
# it. Each is looked for along an index, since a table that has just been filled is planned badly.
JOBS = """
    select
        (select count(*) from run
         where due_at is not null
           and (select job.id from procrastinate_jobs as job
                where job.queueing_lock = 'run:' || run.id and job.status = 'todo') is null)
          as missing,
        (select count(*) from (
            select queue_name, status,
                   case status when 'todo' then queueing_lock else lock end as known_by
            from procrastinate_jobs
            where status in ('todo', 'doing')
              and (task_name = 'attempt' or starts_with(lock, 'run:')
                   or starts_with(queueing_lock, 'run:'))
         ) as job
         where not coalesce((
            select case job.status when 'todo' then run.due_at is not null
                                   else run.lease_token is not null end
            from run
            where run.tenant = job.queue_name
              and run.id = case when job.known_by ~ %(name)s
                                then substr(job.known_by, 5)::uuid end), false)) as needless
"""


@dataclass(frozen=True, slots=True)
class Jobs:
    """How the jobs differ from what the runs call for."""

    missing: int
    needless: int


async def jobs(conn: Connection) -> Jobs:
    return await _look(conn, Jobs, JOBS, {"name": NAME})


OVERDUE = """
    select
        (select count(*) from (
            select from run where status = 'Succeeded'
              and completed_at < now() - %(succeeded)s::interval limit %(most)s) as older)
        + (select count(*) from (
            select from run where status in ('Failed', 'PartiallyFailed', 'Cancelled')
              and completed_at < now() - %(failed)s::interval limit %(most)s) as older)
        + (select count(*) from (
            select from delivery
            where created_at < now() - %(deliveries)s::interval limit %(most)s) as older)
"""
MOST = 100_000  # that are counted
SLACK = timedelta(hours=3)  # a sweep an hour may leave something for the next


async def overdue(conn: Connection, ages: dict[str, timedelta | None]) -> int:
    """How many rows are older than that. Where None is given, none is."""
    row = await (await conn.execute(OVERDUE, {**ages, "most": MOST})).fetchone()
    assert row is not None  # a select without a table
    return row[0]
