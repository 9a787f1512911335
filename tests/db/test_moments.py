"""Times that no calendar of ours has, in rows that somebody edited: nothing ends of them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from fix_queue import WANTED, jobs_that_differ, row

from procession.engine.change import Key
from procession.engine.content_type import Sensitivity
from procession.queue import archive, checkup, runs, stored_run
from procession.queue.ahead import seconds_to_next
from procession.queue.archive import Chosen, Reached, pages
from procession.queue.backlog import begin, measure, measured
from procession.queue.claim import claim
from procession.queue.entries import lock
from procession.queue.entry_reads import Wanted, page
from procession.queue.moments import FIRST, LAST
from procession.queue.runs import Filters, Place, Span
from procession.queue.types import Recorded
from procession.tasks.backlog import LIMIT

ODD = {"infinity": LAST, "-infinity": FIRST, "0044-03-15 BC": FIRST, "20000-01-01": LAST}
COLUMNS = "created_at", "updated_at", "abandoned_at"
each_moment = pytest.mark.parametrize("moment", ODD)


async def edit(conn, moment, *columns, where="true"):
    values = ", ".join(f"{one} = %(moment)s" for one in columns)
    await conn.execute(f"update run set {values} where {where}", {"moment": moment})


@each_moment
async def test_what_is_read_and_kept_again_is_beyond_all_time(conn, moment):
    (read,) = await row(conn, "select %s::timestamptz", moment)

    assert read == ODD[moment]
    assert await row(conn, "select isfinite(%s::timestamptz)", read) == (False,)


async def test_other_times_are_kept_as_they_are(conn):
    for one in (FIRST + timedelta.resolution, LAST - timedelta.resolution, datetime.now(UTC)):
        assert await row(conn, "select %s::timestamptz", one) == (one,)


@each_moment
async def test_a_claim_takes_the_run_and_its_neighbours(conn, make, moment):
    ids = await (await make("Safe")).queue(3)
    await edit(conn, moment, *COLUMNS, where=f"id = '{ids[1]}'")

    taken = await claim(conn, WANTED, 9)

    assert {one.id for one in taken} == set(ids)


@each_moment
async def test_such_a_run_goes_on_to_its_end(conn, make, worked, moment):
    await (await make("Safe", "Plain")).queue(2)
    await edit(conn, moment, *COLUMNS)

    async with worked.working():
        await worked.heard.wait(Recorded, 4)

    cursor = await conn.execute("select status from run")
    assert await cursor.fetchall() == [("Succeeded",)] * 2
    assert await jobs_that_differ(conn) == []


@each_moment
async def test_lists_show_the_run_with_the_others(conn, make, moment):
    ids = await (await make("Safe")).queue(3)
    columns = *COLUMNS, "due_at", "no_worker_since"
    await edit(conn, moment, *columns, where=f"id = '{ids[1]}'")

    listed = await runs.page(conn, "default", Filters(), Span(9, 0), 3)
    alone = await stored_run.shown(conn, "default", ids[1])

    assert {one.id for one in listed} == set(ids)
    assert {getattr(alone, one) for one in columns} == {ODD[moment]}
    assert alone.is_read


@each_moment
async def test_an_export_passes_over_none_and_ends(conn, make, monkeypatch, moment):
    monkeypatch.setattr(archive, "PAGE", 2)
    ids = await (await make("Safe")).queue(7)
    await edit(conn, moment, "updated_at", where=f"id in {tuple(map(str, ids[:5]))}")

    async with asyncio.timeout(5):
        found = [
            one.id async for some in pages(conn, "default", Chosen(), Reached()) for one in some
        ]

    assert sorted(found) == ids


async def test_who_follows_changes_gets_past_those_without_an_end(conn, make):
    ids = await (await make("Safe")).queue(5)
    await edit(conn, "infinity", "updated_at")
    place, found = Place(datetime(2020, 1, 1, tzinfo=UTC)), []

    for _ in range(3):
        some = await runs.changed(conn, "default", Filters(), place, Span(2, 0))
        found += some
        place = Place(some[-1].updated_at, some[-1].id)

    assert [one.id for one in found] == ids


@each_moment
async def test_what_waits_is_measured_in_seconds_that_there_are(conn, kept, make, moment):
    ids = await (await make("Safe")).queue(4)
    await edit(conn, moment, "created_at", "due_at", where=f"id = '{ids[0]}'")
    await conn.execute("update run set due_at = now() + interval '1 h' where id = %s", [ids[1]])
    await claim(conn, WANTED, 1)
    await edit(conn, moment, "lease_until", where="lease_token is not null")

    await begin(conn, timedelta())
    await measure(conn, WANTED.types, LIMIT)
    backlog = await asyncio.to_thread(measured, kept)
    work = await checkup.work(conn)

    assert await seconds_to_next(conn) < 3601
    ages = backlog.oldest_due_age, backlog.oldest_lapsed_age, work.oldest_due, work.oldest_lapsed
    assert max(ages) < float("inf")


@each_moment
async def test_a_claim_brings_an_entry_of_such_times(conn, make, moment):
    await (await make("Safe")).queue()
    await conn.execute("update entry set created_at = %s, updated_at = %s", (moment, moment))

    (taken,) = await claim(conn, WANTED, 1)

    assert (taken.entry.created_at, taken.entry.updated_at) == (ODD[moment], ODD[moment])
    assert taken.entry.data == {"title": "One"}


@each_moment
async def test_an_entry_of_such_times_is_listed_and_changed(conn, make, moment):
    await make("Safe")
    await conn.execute("update entry set created_at = %s, updated_at = %s", (moment, moment))
    wanted = Wanted("default", "article", tuple(Sensitivity))

    listed = await page(conn, wanted, Span(9, 0))
    found = await lock(conn, Key("default", "article", "a1"))

    assert [one.created_at for one in listed.entries] == [found.entry.created_at] == [ODD[moment]]
