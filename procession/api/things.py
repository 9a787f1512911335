"""Whether what a path names is there, for faults that are found in front of the route.

The thing in the path comes before what was sent: a route looks for it first of all. It gets no
chance to where the key of a repeat or the query is at fault; then it is asked for here. A path that
cannot name anything is a ValueError: it is a fault itself, and comes with the others.
"""

from collections.abc import Awaitable, Callable, Mapping

from procession.api.auth import Caller
from procession.api.paths import NUMBER, uuid_in
from procession.engine.bulk import Verb
from procession.engine.change import Key, transition_of
from procession.engine.errors import ForbiddenError, NotFoundError, found
from procession.engine.names import is_entry_id, is_name, is_slug
from procession.queue import bulk, connectors, content_types, entry_reads, stored_run
from procession.queue.pool import Connection
from procession.queue.stored_run import StoredRun

Path = Mapping[str, str]
Thing = Callable[[Connection, Caller, Path], Awaitable[object]]  # raises when it is not there


def _of_form(text: str, is_form: Callable[[str], object]) -> str:
    if not is_form(text):
        raise ValueError(text)
    return text


async def run(conn: Connection, caller: Caller, path: Path) -> StoredRun:
    return found(await stored_run.shown(conn, caller.tenant, uuid_in(path["id"])), "run")


async def action(conn: Connection, caller: Caller, path: Path) -> None:
    ordinal = int(_of_form(path["ordinal"], NUMBER.fullmatch))
    if ordinal >= len((await run(conn, caller, path)).actions):
        raise NotFoundError("action")


async def content_type(conn: Connection, caller: Caller, path: Path) -> None:
    name = _of_form(path["contentType"], is_name)
    found(await content_types.one(conn, caller.tenant, name), "content type")


async def transition(conn: Connection, caller: Caller, path: Path) -> None:
    """One of the entry's, for whoever may change it, and so may read it."""
    name, of_type = (_of_form(path[one], is_name) for one in ("name", "contentType"))
    key = Key(caller.tenant, of_type, _of_form(path["id"], is_entry_id))
    entry, declared = found(await entry_reads.one(conn, key), "entry")
    transition_of(entry, name, declared)


async def connector(conn: Connection, caller: Caller, path: Path) -> None:
    slug = _of_form(path["slug"], is_slug)
    found(await connectors.one(conn, caller.tenant, slug), "connector")


async def bulk_to_stop(conn: Connection, caller: Caller, path: Path) -> None:
    """A verb for many runs, for whoever may carry it out; who may carry out none is told so."""
    held = caller.capabilities
    try:
        needed = (await bulk.one(conn, caller.tenant, uuid_in(path["id"]))).verb.capability
    except NotFoundError:
        if held.isdisjoint(verb.capability for verb in Verb):
            raise ForbiddenError(Verb.RETRY.capability) from None
        raise
    if needed not in held:
        raise ForbiddenError(needed)
