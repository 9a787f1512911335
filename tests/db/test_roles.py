"""A role that several save at once: made once, and noted as it went."""

from fix_races import BY

from procession.engine.access import BUILT_IN, CAPABILITIES
from procession.queue import roles

ACROSS = 8
ROUNDS = 10


def saving(name, *capabilities):
    async def save(session):
        return await roles.save_role(session, "default", name, frozenset(capabilities), BY)

    return save


async def told(conn, name):
    """What it holds by the audit log alone, and how many entries that takes."""
    found = await conn.execute(
        "select metadata from audit where target_id = %s order by at", [name]
    )
    entries = [metadata for (metadata,) in await found.fetchall()]
    held = set()
    for one in entries:
        assert not held & set(one["added"])
        assert held >= set(one["removed"])
        held = held - set(one["removed"]) | set(one["added"])
    return held, len(entries)


async def test_a_role_that_many_make_at_once_is_made_by_one_and_noted_as_it_went(conn, race):
    for number in range(ROUNDS):
        name = f"Own{number}"
        wanted = [CAPABILITIES[one % 3] for one in range(ACROSS)]

        saved = await race.between(*[saving(name, one) for one in wanted])

        (kept,) = [one for one in await roles.roles(conn, "default") if one.name == name]
        held, entries = await told(conn, name)
        assert sum(is_new for _, is_new in saved) == 1
        assert held == set(kept.capabilities)
        assert 3 <= entries <= ACROSS


async def test_a_built_in_role_that_many_add_to_at_once_is_noted_as_it_went(conn, race):
    for added in CAPABILITIES:
        await race.between(*[saving("Viewer", added)] * ACROSS)

    held, entries = await told(conn, "Viewer")
    assert held == {CAPABILITIES[-1]} - BUILT_IN["Viewer"]
    assert entries <= 1 + len(CAPABILITIES)


async def test_what_adds_nothing_to_a_built_in_role_is_not_noted(conn):
    _, is_new = await saving("Viewer", "read_entries")(conn)

    assert not is_new
    assert await told(conn, "Viewer") == (set(), 0)
