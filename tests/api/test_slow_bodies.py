"""A body that takes its time: its caller is judged by what is so when all of it is here."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from procession.api import body, routes

JSON = {"Content-Type": "application/json"}
KEY = b'{"name": "kept alive", "role": "Admin"}'


@pytest.fixture(autouse=True)
def nothing_is_prompt(monkeypatch):
    monkeypatch.setattr(routes, "PROMPT", 0)


@asynccontextmanager
async def before_its_last_byte(client):
    """The block runs when all but a byte of a POST was sent; yields what becomes of it."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def parts():
        yield KEY[:-1]
        begun.set()
        await go.wait()
        yield KEY[-1:]

    post = asyncio.create_task(client.post("/api/keys", headers=JSON, content=parts()))
    await begun.wait()
    yield post
    go.set()
    await post


async def names(client):
    return {one["name"] for one in (await client.get("/api/keys")).json()["items"]}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ("update api_key set revoked_at = now() where id = %s", (401, "unauthenticated")),
        ("update api_key set expires_at = now() where id = %s", (401, "unauthenticated")),
        ("update api_key set role = 'Viewer' where id = %s", (403, "forbidden")),
    ],
)
async def test_who_may_no_more_when_the_body_is_here_does_nothing(
    admin, call, conn, change, refusal
):
    leaving = await call()
    key_id = leaving.headers["Authorization"].split("_")[1]

    async with before_its_last_byte(leaving) as post:
        await conn.execute(change, [key_id])

    answer = post.result()
    assert (answer.status_code, answer.json()["code"]) == refusal
    assert "kept alive" not in await names(admin)


async def test_who_still_may_is_served_in_its_tenant(call, control):
    await call("Admin", "acme")
    control.headers["X-Tenant"] = "acme"

    async with before_its_last_byte(control) as post:
        pass

    assert post.result().status_code == 201
    assert "kept alive" in await names(control)


async def test_a_body_that_does_not_end_is_not_waited_for(admin, monkeypatch):
    monkeypatch.setattr(body, "SLOWEST", 0.01)

    async def parts():
        yield KEY[:-1]
        await asyncio.Event().wait()

    answer = await admin.post("/api/keys", headers=JSON, content=parts())

    assert (answer.status_code, answer.json()["code"]) == (408, "body-too-slow")
    assert answer.headers["connection"] == "close"
    assert await names(admin) == {"key of Admin"}
