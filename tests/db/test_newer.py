"""A run that a newer release has written is left to the workers that know what it wrote."""

import asyncio

import pytest
from fix_queue import WANTED, age, row

from procession.engine.outcome import Succeeded
from procession.queue.claim import claim
from procession.queue.record import Ended
from procession.queue.rescue import rescue, stop_switched_off
from procession.queue.types import Discarded

NEWER = """
    update run set document_format = 2, version = version + 1,
        actions = jsonb_set(actions, '{0,novelty}', '"kept"')
"""
EVERYTHING = "select to_jsonb(run) from run"


async def test_it_is_not_claimed(conn, make):
    await (await make("Safe")).queue()
    await conn.execute(NEWER)
    before = await row(conn, EVERYTHING)

    assert await claim(conn, WANTED, 1) == []
    assert await row(conn, EVERYTHING) == before


async def test_it_is_not_rescued(conn, kept, make):
    await (await make("Safe")).queue()
    await claim(conn, WANTED, 1)
    await age(conn, lease_until=16)
    await conn.execute(NEWER)
    before = await row(conn, EVERYTHING)

    assert await asyncio.to_thread(rescue, kept) == []
    assert await row(conn, EVERYTHING) == before


async def test_it_is_not_stopped_when_its_workflow_is_off(conn, kept, make):
    await (await make("Safe")).queue()
    await conn.execute(NEWER)
    await conn.execute("update workflow set enabled = false")
    before = await row(conn, EVERYTHING)

    assert await asyncio.to_thread(stop_switched_off, kept) == []
    assert await row(conn, EVERYTHING) == before


@pytest.mark.parametrize("lapsed", [False, True])
async def test_an_outcome_of_what_was_claimed_before_does_not_touch_it(
    conn, make, recorder, heard, lapsed
):
    await (await make("Safe")).queue()
    (taken,) = await claim(conn, WANTED, 1)
    await conn.execute(NEWER)
    if lapsed:
        await age(conn, lease_until=16)
    before = await row(conn, EVERYTHING)

    assert await recorder.record(taken, Ended(Succeeded(), 1)) is None

    assert await row(conn, EVERYTHING) == before
    assert await row(conn, "select count(*) from attempt") == (0,)
    assert heard.of(Discarded) == [Discarded(taken)]
