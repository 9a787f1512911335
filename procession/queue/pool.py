"""Connections: one pool a process, shared with Procrastinate: one transaction holds both."""

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from procession.queue.lively import LivelyPool
from procession.queue.moments import bear_with_any

Connection = AsyncConnection[TupleRow]
Pool = AsyncConnectionPool[Connection]

# A worker prepares its statements when a table is small, and Postgres keeps to such a plan until
# it next looks at the table, a minute of seconds-long scans after a burst of work. Whatever the
# size, each of them is a short walk along indexes.
INDEXES = (
    " -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"
    " -c random_page_cost=1.1 -c plan_cache_mode=force_generic_plan"
)

# What the driver and the statements understand, whatever the database or the role is set to.
SPOKEN = "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres"

# Whatever a statement reads, it is over before it would have been compiled.
PLAIN = "-c jit=off"

# Seconds. Who stands still in the middle of a transaction gives up what it has locked, before the
# leases of those runs end: they last 15, and are renewed every 5.
IDLE = 5

# Seconds. The pool doubles its wait before each try: left to itself, it is away for as long again
# as the server was. After this long it gives up, and begins anew at the next call.
RECONNECTING = 5


@dataclass(frozen=True, slots=True)
class Database:
    """Where everything is kept, and how this process reaches it. Times in seconds."""

    url: str
    schema: str = "public"
    pool_min: int = 1
    pool_max: int = 12
    connect_timeout: int = 10
    statement_timeout: int = 30
    prefer_indexes: bool = False  # of a worker: see INDEXES
    lock_timeout: int = 0  # for a row that somebody else has locked; 0: as long as the statement

    @property
    def conninfo(self) -> str:
        """The connection string, with what every session is to be set to in it."""
        options = (
            f"-c search_path={self.schema} {SPOKEN} {PLAIN} "
            f"-c statement_timeout={self.statement_timeout}s "
            f"-c lock_timeout={self.lock_timeout}s "
            f"-c idle_in_transaction_session_timeout={IDLE}s"
            f"{INDEXES if self.prefer_indexes else ''}"
        )
        return make_conninfo(
            self.url,
            options=options,
            connect_timeout=self.connect_timeout,
            application_name="procession",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            client_encoding="UTF8",
        )


async def configure(conn: AsyncConnection[Any]) -> None:
    """Make a lone statement its own transaction; several stand in `conn.transaction()`."""
    await conn.set_autocommit(True)
    bear_with_any(conn)


def make_pool(database: Database) -> Pool:
    """A closed pool. A checkout looks at a connection, and asks nothing: that is a round trip."""
    return LivelyPool(
        database.conninfo,
        connection_class=AsyncConnection[TupleRow],
        min_size=database.pool_min,
        max_size=database.pool_max,
        timeout=database.connect_timeout,
        reconnect_timeout=RECONNECTING,
        configure=configure,
        open=False,
    )
