"""An action writes an entry while others save, delete, force-end, rescue and renew: no deadlock."""

import asyncio

from fix_queue import WANTED, age
from fix_races import BY, rounds, target
from fix_runs import until_blocked

from procession.actions.base import Succeeded
from procession.engine.change import Change, Key, changed
from procession.engine.precondition import Precondition
from procession.queue import commands, entries, workflow_changes
from procession.queue.acting import GoneError, write_once
from procession.queue.claim import claim
from procession.queue.leases import Unrenewed, renew
from procession.queue.record import Ended
from procession.queue.rescue import rescue
from procession.queue.start import Origin
from procession.tasks.attempt import acting_of

ARTICLE = Key("default", "article", "a1")
FIRED = """
    insert into workflow_trigger (tenant, content_type, event, workflow_id)
    select 'default', 'article', 'Updated', id from workflow
    on conflict do nothing
"""


def acts(taken, title):
    """The side of an action: it was written or, since the lease is gone, was not."""

    def decide(made, entry):
        return changed(entry, ARTICLE, Change(data={"title": title}), made)

    async def act(session):
        try:
            await write_once(session, acting_of(taken, 10), f"{taken.id.hex}-0", ARTICLE, decide)
        except GoneError:
            return "gone"
        return "written"

    return act


def saves(title):
    async def save(session):
        body = {"data": {"title": title}}
        await entries.put(session, ARTICLE, body, Precondition(), Origin(BY.actor))
        return "saved"

    return save


def force_ends(taken):
    async def force_end(session):
        await commands.force_end(session, target(taken.id))
        return "ended"

    return force_end


def deletes(made):
    async def delete(session):
        await workflow_changes.delete(session, "default", made.id, BY)
        return "deleted"

    return delete


def records(recorder, taken):
    async def record(_):
        return "late" if await recorder.record(taken, Ended(Succeeded(), 1)) is None else "recorded"

    return record


@rounds
async def test_writes_of_actions_meet_saves_and_commands_without_a_deadlock(
    conn, race, make, rounds
):
    async def once():
        made, other = await make("Safe"), await make("Safe")
        await made.queue(2)
        first, second = await claim(conn, WANTED, 2)
        await conn.execute(FIRED)
        took = await race.between(
            acts(first, "a"),
            acts(second, "b"),
            saves("c"),
            deletes(made),
            force_ends(first),
            deletes(other),
        )
        cursor = await conn.execute("select run_id from marker")
        marked = {run_id for (run_id,) in await cursor.fetchall()}
        written = {
            one.id for one, way in zip((first, second), took, strict=False) if way == "written"
        }
        assert marked == written
        return took[0]

    await race.goes(rounds, once, "written", "gone")


@rounds
async def test_a_write_meets_the_rescue_of_its_attempt(conn, kept, race, make, rounds):
    async def once():
        await (await make("Safe")).queue()
        (taken,) = await claim(conn, WANTED, 1)
        await conn.execute(FIRED)
        await age(conn, lease_until=15)

        async def rescues(_):
            return len(await asyncio.to_thread(rescue, kept))

        async def renews(_):
            return len((await asyncio.to_thread(renew, kept, [taken])).gone)

        way, *_ = await race.between(acts(taken, "a"), rescues, saves("b"))
        assert way == "gone"
        assert await asyncio.to_thread(renew, kept, [taken]) == Unrenewed({taken.token})
        return way

    await race.goes(rounds, once, "gone")


async def test_a_renewal_is_not_held_up_while_an_action_waits_for_an_entry(conn, kept, race, make):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    other, mine, *_ = race.sessions
    async with other.transaction():
        await other.execute("select from entry for no key update")
        acting = asyncio.create_task(acts(taken, "a")(mine))
        await until_blocked(conn)
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(renew, kept, [taken]) == Unrenewed()
    assert await acting == "written"
