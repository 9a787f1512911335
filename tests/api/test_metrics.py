"""Who may read the metrics, and what the API counts."""

from dataclasses import replace

import httpx2
import pytest
from fix_api import add_workflow, declare
from fix_metrics import samples

from procession.api.app import create_app
from procession.api.scrape import MEDIA_TYPE, Scrape
from procession.app.health import Health, serve_health
from procession.app.metrics import Metrics

KEY = "scrape-key-of-the-tests"


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def app(app, metrics):
    """The application, as it is made where there is a scrape key."""
    services = replace(app.state.services, scrape=Scrape(KEY, metrics.text), tell=metrics.heard)
    return create_app(services)


LETS_IN = [
    {"Authorization": f"Bearer {KEY}"},
    {"Authorization": f"bearer {KEY}"},
    {"Authorization": f"BEARER  {KEY}"},
    {"X-Scrape-Key": KEY},
    {"Authorization": "Bearer another", "X-Scrape-Key": KEY},
]
REFUSES = [
    {},
    {"Authorization": KEY},
    {"Authorization": f"Basic {KEY}"},
    {"Authorization": f"Bearer {KEY[:-1]}"},
    {"Authorization": f"Bearer {KEY}x"},
    {"Authorization": f"Bearer {KEY.upper()}"},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer ü".encode()},
    {"X-Scrape-Key": ""},
    {"X-Scrape-Key": KEY[1:]},
    {"X-Scrape-Key": f"Bearer {KEY}"},
]


@pytest.mark.parametrize("headers", LETS_IN, ids=str)
async def test_who_has_the_key_reads_the_metrics(client, headers):
    answer = await client.get("/metrics", headers=headers)

    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    assert answer.headers["cache-control"] == "no-store"
    assert "# TYPE procession_workflow_runs_queued_total counter" in answer.text


@pytest.mark.parametrize("headers", REFUSES, ids=str)
async def test_who_has_not_does_not(client, headers):
    answer = await client.get("/metrics", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "procession_workflow" not in answer.text


@pytest.mark.parametrize("headers", [*LETS_IN, *REFUSES], ids=str)
async def test_without_a_key_they_serve_nobody(client, app, headers):
    app.state.services = replace(app.state.services, scrape=Scrape("", Metrics().text))

    assert (await client.get("/metrics", headers=headers)).status_code == 401


async def test_a_caller_of_the_api_is_nobody_to_them(admin, control):
    for one in (admin, control):
        assert (await one.get("/metrics")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"), [*((one, 200) for one in LETS_IN), *((one, 401) for one in REFUSES)]
)
async def test_a_worker_lets_in_whom_the_api_does(metrics, headers, status):
    async def reasons():
        return []

    async with (
        serve_health("127.0.0.1", 0, Health(reasons), Scrape(KEY, metrics.text)) as at,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{at.port}", trust_env=False) as client,
    ):
        answer = await client.get("/metrics", headers=headers)

    assert answer.status_code == status
    if status == 200:
        assert "runs_queued_total" in answer.text
        assert answer.headers["content-type"] == MEDIA_TYPE
    else:
        assert answer.text == ""


def moved(metrics):
    """The counts of queued runs by trigger, without those that are 0."""
    counted = samples(metrics.text().decode())
    return {key[1]: value for key, value in counted.items() if value}


async def test_runs_are_counted_by_what_fired_them(admin, conn, metrics):
    await declare(admin)
    await add_workflow(conn, "Created", "Published", "transition:Approve")
    workflow = await add_workflow(conn, "Created", "Deleted")
    entry = "/api/entries/Article/a1"

    await admin.put(entry, json={"data": {"Title": "One"}, "status": "Review"})
    assert moved(metrics) == {"created": 2}
    await admin.post(f"{entry}/transitions/Approve")
    assert moved(metrics) == {"created": 2, "transition": 1, "published": 1}
    started = await admin.post(f"/api/workflows/{workflow}/run", json={"entryId": "a1"})
    assert started.status_code == 202, started.text
    assert moved(metrics)["other"] == 1
    await admin.delete(entry)
    assert moved(metrics) == {
        "created": 2,
        "transition": 1,
        "published": 1,
        "other": 1,
        "deleted": 1,
    }


async def test_what_is_refused_or_asked_for_again_is_not_counted(admin, conn, metrics):
    await declare(admin)
    workflow = await add_workflow(conn, "Created")
    await admin.put("/api/entries/Article/a1", json={"data": {}})
    path, again = f"/api/workflows/{workflow}/run", {"Idempotency-Key": "once"}
    for _ in range(3):
        assert (await admin.post(path, json={"entryId": "a1"}, headers=again)).is_success
    stale = {"If-Match": '"7"'}

    refused = await admin.put("/api/entries/Article/a2", json={"data": {}}, headers=stale)

    assert refused.status_code == 412
    assert moved(metrics) == {"created": 1, "other": 1}


FAILS_TO_COMMIT = """
    create function never() returns trigger language plpgsql as $$
    begin
        raise exception 'not now' using errcode = 'cannot_connect_now';
    end $$;
    create constraint trigger never after insert on run deferrable initially deferred
        for each row execute function never()
"""


async def test_a_run_that_is_queued_and_not_committed_is_not_counted(admin, conn, metrics):
    await declare(admin)
    await add_workflow(conn, "Created")
    await conn.execute(FAILS_TO_COMMIT)
    try:
        failed = await admin.put("/api/entries/Article/a1", json={"data": {}})
    finally:
        await conn.execute("drop trigger never on run; drop function never")

    assert failed.status_code == 503
    assert moved(metrics) == {}
