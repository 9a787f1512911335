"""When the database is the reason: what a caller meets while it is away, or only readable."""

from psycopg import Error, InterfaceError, OperationalError
from psycopg.errors import (
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    TransactionTimeout,
)
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

# A statement that ran too long, lost a deadlock or found the server going down is an
# OperationalError too: none of it stored anything, and another try may. So is a transaction that
# the server ended since it stood still, or went on, for too long.
OUTAGES: tuple[type[Exception], ...] = (
    OperationalError,
    InterfaceError,
    ReadOnlySqlTransaction,
    IdleInTransactionSessionTimeout,
    TransactionTimeout,
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
)

# All that a statement may fail by, where none of it may pass.
FAULTS: tuple[type[Exception], ...] = (Error, *OUTAGES)
