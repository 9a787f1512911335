"""Too many refused credentials of an address."""

import asyncio
from collections import Counter

import pytest
from fix_api import CONTROL, RING, add_key, client_of

from procession.api.app import create_app
from procession.api.attempts import Attempts
from procession.api.services import Services


@pytest.fixture
async def knock(pool, clock):
    """Come with a credential from an address."""
    tries = Attempts(5, 1.0, clock)
    app = create_app(Services(pool=pool, ring=RING, control_tokens=(CONTROL,), attempts=tries))

    async def come(token=None, address="192.0.2.1", path="/api/me", **headers):
        headers |= {"Authorization": f"Bearer {token}".encode()} if token is not None else {}
        async with client_of(app, client=(address, 1)) as client:
            return await client.get(path, headers=headers)

    return come


def wrong(number=0):
    return f"prc_{number:012}_{'x' * 43}"


async def test_too_many_are_told_to_wait_and_nobody_else_is(knock, conn, clock):
    elsewhere, newcomer = await add_key(conn), await add_key(conn)

    statuses = [(await knock(wrong(number))).status_code for number in range(8)]
    refused = await knock(wrong())

    assert statuses == [401] * 5 + [429] * 3
    assert refused.json()["code"] == "too-many-attempts"
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["cache-control"] == "no-store"
    assert (await knock(elsewhere, "192.0.2.2")).status_code == 200
    assert (await knock(newcomer)).status_code == 429
    clock.now += 1
    assert (await knock(newcomer)).status_code == 200


async def test_who_worked_before_goes_on_behind_the_same_proxy(knock, conn):
    good, revoked = await add_key(conn), await add_key(conn)
    control = {"path": "/api/tenants"}
    for one in (good, revoked):
        assert (await knock(one)).status_code == 200
    assert (await knock(CONTROL, **control)).status_code == 200
    for number in range(6):
        await knock(wrong(number))
    await conn.execute(
        "update api_key set revoked_at = now() where id = %s", (revoked.split("_")[1],)
    )

    assert (await knock(good)).status_code == 200
    assert (await knock(CONTROL, **control)).status_code == 200
    assert (await knock(revoked)).status_code == 401
    assert (await knock(wrong())).status_code == 429


async def test_a_key_that_was_revoked_does_not_shut_out_the_one_in_its_place(knock, conn, clock):
    old, new = await add_key(conn), await add_key(conn)
    assert (await knock(old)).status_code == 200
    await conn.execute("update api_key set revoked_at = now() where id = %s", (old.split("_")[1],))

    statuses = [(await knock(old)).status_code for _ in range(50)]
    clock.now += 1

    assert statuses == [401] * 5 + [429] * 45
    assert (await knock(new)).status_code == 200


async def test_many_at_once_cost_no_more_time_than_as_many_as_are_let_through(knock, conn, clock):
    newcomer = await add_key(conn)
    await asyncio.gather(*(knock(wrong(number)) for number in range(50)))
    clock.now += 1

    assert (await knock(newcomer)).status_code == 200


async def test_of_many_at_once_as_many_are_looked_at_as_one_by_one(knock, clock):
    for number in range(5):
        await knock(wrong(number))
    clock.now += 2

    answers = await asyncio.gather(*(knock(wrong(number)) for number in range(50)))

    assert Counter(one.status_code for one in answers) == {401: 2, 429: 48}


async def test_who_worked_before_takes_no_room_from_others(knock, conn):
    good, newcomer = await add_key(conn), await add_key(conn)
    assert (await knock(good)).status_code == 200
    await knock(wrong())

    answers = await asyncio.gather(*(knock(good) for _ in range(20)), knock(newcomer))

    assert {one.status_code for one in answers} == {200}


async def test_a_request_without_a_credential_is_no_attempt(knock, conn):
    for _ in range(20):
        assert (await knock()).status_code == 401
        assert (await knock(Authorization="Basic eDp4")).status_code == 401

    assert (await knock(await add_key(conn))).status_code == 200


@pytest.mark.parametrize("token", ["x", "ü", "a.b.c", CONTROL[:-1]])
async def test_whatever_is_refused_counts(knock, token):
    statuses = [(await knock(token)).status_code for _ in range(6)]

    assert statuses == [401] * 5 + [429]


async def test_refusals_for_other_reasons_do_not_count(knock, conn):
    viewer = await add_key(conn, role="Viewer")
    for _ in range(10):
        assert (await knock(viewer, path="/api/keys")).status_code == 403
        assert (await knock(viewer, path="/api/nowhere")).status_code == 404
        assert (await knock(CONTROL)).status_code == 400

    assert (await knock(wrong())).status_code == 401


async def test_an_address_over_the_limit_costs_the_database_nothing(knock, pool):
    for number in range(5):
        await knock(wrong(number))
    before = pool.get_stats()["requests_num"]

    statuses = await asyncio.gather(*(knock(wrong(number)) for number in range(50)))

    assert {one.status_code for one in statuses} == {429}
    assert pool.get_stats()["requests_num"] == before
