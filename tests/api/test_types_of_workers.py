"""Action types that a live worker has and the API has not: listed, saved and hidden alike."""

import json

import pytest
from fix_api import declare

from procession.engine.catalogue import ActionType, Parameter, Repeatable
from procession.queue.types import Beaten
from procession.queue.workers import Worker, beat, leave

BOOK = ActionType(
    description="Book an invoice.",
    parameters=(
        Parameter("Amount", required=True, description="What is owed", example="1.50"),
        Parameter("Pin", credential=True),
    ),
    outputs=("invoiceId",),
    repeatable=Repeatable.DEPENDS,
)
FLOW = {
    "name": "Book",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [
        {"type": "Book", "parameters": {"Amount": "1", "Pin": "4711"}, "capture": ["invoiceId"]}
    ],
}


@pytest.fixture
def serve(kept):
    """Make a worker that serves these types."""
    number = iter(range(1, 100))

    def served(**described):
        worker = Worker(
            id=uuid(next(number)),
            release="0",
            types=(*described, "Webhook"),
            claims=True,
            described=described,
        )
        beat(kept, worker)
        return worker

    return served


def uuid(number):
    return f"00000000-0000-0000-0000-{number:012}"


async def listed(client):
    return {one["type"]: one for one in (await client.get("/api/workflows/actions")).json()}


async def test_a_type_of_a_live_worker_is_in_the_catalogue_whole(admin, kept, serve):
    before = await listed(admin)
    worker = serve(Book=BOOK, Sms=ActionType(description="Not ours"))

    there = await listed(admin)
    beat(kept, worker)
    leave(kept, worker)
    after = await listed(admin)

    assert there["Book"] == {
        "type": "Book",
        "description": "Book an invoice.",
        "repeatable": "Depends",
        "outputs": ["invoiceId"],
        "parameters": [
            {"name": "Amount", "required": True, "credential": False,
             "description": "What is owed", "example": "1.50"},
            {"name": "Pin", "required": False, "credential": True, "description": "",
             "example": ""}],
        "served": True,
    }  # fmt: skip
    assert there["Sms"] == before["Sms"] | {"served": True}
    assert [*there] == sorted(there)
    assert after == before


async def test_a_workflow_of_it_is_saved_and_its_credential_stays_hidden(conn, admin, kept, serve):
    await declare(admin)
    worker = serve(Book=BOOK)
    made = (await admin.post("/api/workflows", json=FLOW)).json()
    path = f"/api/workflows/{made['id']}"
    leave(kept, worker)

    alone = (await admin.get(path)).json()
    refused = await admin.put(path, json={**alone, "name": "Other"})
    beat(kept, worker)
    saved = await admin.put(path, json={**alone, "name": "Other"})

    assert made["warnings"] == []
    assert made["actions"][0]["credentialsSet"] == ["Pin"]
    assert alone == {one: value for one, value in made.items() if one != "warnings"}
    assert [one["name"] for one in refused.json()["errors"]] == ["actions[0].type"]
    assert (saved.status_code, saved.json()["version"]) == (200, 2)
    cursor = await conn.execute(
        "select definition #>> '{actions,0,parameters,Pin}' from workflow_version order by version"
    )
    first, second = [text for (text,) in await cursor.fetchall()]
    assert first == second
    assert first.startswith("v1.tests.")


async def test_a_worker_that_is_silent_serves_nothing(conn, admin, serve):
    serve(Book=BOOK)
    await conn.execute("update worker set heartbeat_at = now() - interval '16 s'")

    there = await listed(admin)

    assert "Book" not in there
    assert not any(one["served"] for one in there.values())


async def test_of_two_workers_the_younger_is_believed(conn, admin, serve):
    serve(Book=BOOK)
    await conn.execute("update worker set started_at = now() - interval '1 h'")
    serve(Book=ActionType(description="Book it, newer."))

    assert (await listed(admin))["Book"]["description"] == "Book it, newer."


@pytest.mark.parametrize("text", ["[]", '{"repeatable": "Often"}', '{"outputs": 7}'])
async def test_what_cannot_be_read_of_a_type_leaves_it_out(conn, admin, serve, text):
    serve(Book=BOOK)
    await conn.execute("update worker set described = %s::jsonb", (f'{{"Book": {text}}}',))

    assert "Book" not in await listed(admin)


async def test_whatever_a_package_says_of_itself_the_worker_lives(admin, serve):
    serve(Odd=ActionType(description="a\0b \ud800 é"), Book=BOOK)

    there = await listed(admin)

    assert there["Odd"]["description"] == "a\ufffdb ? é"
    assert there["Book"]["served"]


async def test_an_older_worker_says_no_more_than_names(conn, admin):
    await conn.execute(
        "insert into worker (id, release, document_format, action_types, claims)"
        " values (gen_random_uuid(), '0', 1, '{Book,Webhook}', true)"
    )

    there = await listed(admin)

    assert "Book" not in there
    assert there["Webhook"]["served"]


async def test_a_worker_tells_all_of_its_types(conn, worked):
    async with worked.working():
        await worked.heard.wait(Beaten)
        cursor = await conn.execute("select described::text from worker")
        (told,) = await cursor.fetchone()

    assert json.loads(told).keys() == {"Plain", "Safe"}
    assert json.loads(told)["Safe"]["repeatable"] == "Always"
