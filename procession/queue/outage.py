"""When the database is the reason: what a caller meets while it is away, or only readable."""

from psycopg import Error, InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import (
    IdleInTransactionSessionTimeout,
    InsufficientPrivilege,
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

# The schema is not as this release needs it: something is not there, or is not for this user.
UNFIT: tuple[type[Exception], ...] = (ProgrammingError,)

# What whoever started a process can do something about.
REFUSED: tuple[type[Exception], ...] = (*OUTAGES, InsufficientPrivilege)


def why(error: Exception) -> str:
    """One of REFUSED as a sentence for them, and what would help."""
    match error:
        case InsufficientPrivilege():
            named = error.diag.message_primary or type(error).__name__  # names a table, or a schema
            return (
                f"The user of DATABASE_URL lacks a right ({named}): make it the owner of the "
                "schema and of what is in it, or grant it all on them."
            )
        case ReadOnlySqlTransaction():
            return "The database is only readable, until somebody lets it be written to."
        case _:
            return f"The database could not be worked with ({type(error).__name__})."
