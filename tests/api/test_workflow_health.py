"""The health of workflows: their last ends, rates and durations, and the window they are of."""

from datetime import UTC, datetime, timedelta

import pytest
from fix_api import client_of
from fix_runs import add_run, add_workflow

from procession.api.app import create_app
from procession.api.services import Retention, Services
from procession.engine.run import Action, Compensation, Status
from procession.engine.workflow import ActionDefinition, Definition
from procession.queue import health_of_workflows
from procession.queue.health_of_workflows import Window
from procession.queue.runs import Span

DONE = Action(status=Status.SUCCEEDED)
FAILED = Action(status=Status.FAILED, retryable=False)
UNDONE = Action(status=Status.SUCCEEDED, undo=Action(status=Status.SUCCEEDED, duration_ms=9_000))
OFF = Action(status=Status.CANCELLED)
PATH = "/api/workflows/health"


def named(name):
    hook = ActionDefinition(type="Webhook", parameters={"Url": "https://hooks.example.org"})
    return Definition(
        name=name,
        trigger_content_types=("Article",),
        trigger_events=("Published",),
        actions=(hook, hook),
    )


def ago(**past):
    return datetime.now(UTC) - timedelta(**past)


async def get(client, **query):
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ended(conn, workflow_id, *actions, at, **more):
    """A run that ended then; its id."""
    return str(await add_run(conn, workflow_id, *actions, completed_at=at, **more))


async def test_a_workflow_without_runs_says_that_there_is_nothing_to_say(conn, admin):
    flow = await add_workflow(conn, named("Quiet"), enabled=False)

    assert await get(admin) == {
        "items": [{
            "workflowId": str(flow), "name": "Quiet", "enabled": False, "lastOutcomes": [],
            "finishedRuns": 0, "successRate": None, "averageActionDurationMs": None}],
        "page": 1, "pageSize": 50, "totalItems": 1, "totalPages": 1, "hasNextPage": False,
        "hasPreviousPage": False, "windowDays": 7,
    }  # fmt: skip


async def test_no_workflow_is_an_empty_list(admin):
    page = await get(admin, windowDays=30)

    assert (page["items"], page["totalItems"], page["windowDays"]) == ([], 0, 30)


async def test_the_last_ten_ends_come_newest_first_of_whatever_kind(conn, admin):
    flow = await add_workflow(conn)
    made = [await ended(conn, flow, DONE, DONE, at=ago(days=200 + day)) for day in range(9)]
    off = await ended(conn, flow, OFF, OFF, at=ago(hours=2), cancelled_at=ago(hours=2))
    back = await ended(
        conn,
        flow,
        UNDONE,
        FAILED,
        at=ago(hours=1),
        abandoned_at=ago(hours=3),
        compensation=Compensation.COMPENSATED,
    )
    await add_run(conn, flow)

    (health,) = (await get(admin))["items"]

    last = health["lastOutcomes"]
    assert [one["runId"] for one in last] == [back, off, *made[:8]]
    assert [one["status"] for one in last[:3]] == ["PartiallyFailed", "Cancelled", "Succeeded"]
    assert last[0].keys() == {"runId", "status", "compensation", "abandonedAt", "completedAt"}
    assert (last[0]["compensation"], last[1]["compensation"]) == ("Compensated", None)
    assert last[0]["abandonedAt"].endswith("Z")
    assert (last[1]["abandonedAt"], last[0]["completedAt"][-1]) == (None, "Z")


async def test_the_window_holds_what_finished_and_leaves_out_what_was_cancelled(conn, admin):
    flow = await add_workflow(conn)
    for actions in ((DONE, DONE), (DONE, DONE), (DONE, FAILED), (FAILED, FAILED)):
        await ended(conn, flow, *actions, at=ago(days=1))
    await ended(conn, flow, OFF, OFF, at=ago(days=1))
    await ended(conn, flow, DONE, DONE, at=ago(days=8))
    await add_run(conn, flow, DONE, Action())

    (week,) = (await get(admin))["items"]
    (day,) = (await get(admin, windowDays=1))["items"]
    (ten,) = (await get(admin, windowDays=10))["items"]

    assert (week["finishedRuns"], week["successRate"]) == (4, 0.5)
    assert (day["finishedRuns"], day["successRate"]) == (0, None)
    assert (ten["finishedRuns"], ten["successRate"]) == (5, 0.6)


async def test_the_average_is_of_actions_that_took_any_time_in_the_newest_200_runs(conn, admin):
    flow = await add_workflow(conn)
    took = [Action(status=Status.SUCCEEDED, duration_ms=ms) for ms in (100, 201)]
    await ended(conn, flow, *took, at=ago(days=1))
    await ended(conn, flow, UNDONE, took[0], at=ago(days=1))
    await ended(conn, flow, took[0], took[0], at=ago(days=9))
    await add_run(conn, flow, took[0], Action())
    busy = await add_workflow(conn, named("Busy"))
    slow = Action(status=Status.SUCCEEDED, duration_ms=90_000)
    await ended(conn, busy, slow, slow, at=ago(days=2))
    for _ in range(200):
        await ended(conn, busy, took[0], took[0], at=ago(days=1))

    first, second = (await get(admin))["items"]

    assert first["averageActionDurationMs"] == pytest.approx((100 + 201 + 100) / 3)
    assert second["averageActionDurationMs"] == 100
    assert second["finishedRuns"] == 201


async def test_the_average_follows_what_is_written_of_a_run_that_ended(conn, admin):
    flow = await add_workflow(conn)
    timed = [Action(status=Status.SUCCEEDED, duration_ms=ms) for ms in (100, 200)]
    first = await ended(conn, flow, *timed, at=ago(days=1))
    await ended(conn, flow, DONE, timed[0], at=ago(days=1))

    of_both = (await get(admin))["items"][0]["averageActionDurationMs"]
    document = '[{"duration_ms": 700}, {"duration_ms": "x"}, {"duration_ms": 1e300}, 7, null]'
    await conn.execute("update run set actions = %s where id = %s", (document, first))
    edited = (await get(admin))["items"][0]["averageActionDurationMs"]

    assert (of_both, edited) == (pytest.approx(400 / 3), 400)


async def test_the_average_is_of_runs_too_that_ended_before_this_was_noted(conn, admin):
    flow = await add_workflow(conn)
    timed = [Action(status=Status.SUCCEEDED, duration_ms=ms) for ms in (100, 200)]
    for actions in (timed, (DONE, timed[1]), (DONE, DONE)):
        await ended(conn, flow, *actions, at=ago(days=1))
    await conn.execute("update run set spent_ms = null, timed_actions = null")
    await ended(conn, flow, timed[1], timed[1], at=ago(days=1))

    (health,) = (await get(admin))["items"]

    assert health["averageActionDurationMs"] == 900 / 5


async def test_workflows_go_by_name_then_id_and_deleted_ones_are_left_out(conn, admin, call):
    twins = sorted([str(await add_workflow(conn, named("B"))) for _ in range(2)])
    first = str(await add_workflow(conn, named("A")))
    gone = await add_workflow(conn, named("C"))
    await conn.execute("update workflow set deleted_at = now() where id = %s", (gone,))
    stranger = await call("Viewer", "acme")
    theirs = str(await add_workflow(conn, named("0"), tenant="acme"))

    pages = [await get(admin, page=page, pageSize=2) for page in (1, 2, 3)]

    shown = [[one["workflowId"] for one in page["items"]] for page in pages]
    assert shown == [[first, twins[0]], [twins[1]], []]
    assert {page["totalItems"] for page in pages} == {3}
    assert [one["workflowId"] for one in (await get(stranger))["items"]] == [theirs]


@pytest.mark.parametrize(
    ("succeeded", "failed", "asked", "told"),
    [
        (None, None, 400, 90),
        (None, None, 30, 30),
        (7, 90, 30, 7),
        (None, 60, 90, 60),
        (120, None, 10**30, 90),
        (7, 1, 3, 1),
    ],
)
async def test_the_window_is_cut_to_what_is_kept_and_told(  # noqa: PLR0913, PLR0917
    pool, call, succeeded, failed, asked, told
):
    kept = Retention(
        None if succeeded is None else timedelta(days=succeeded),
        None if failed is None else timedelta(days=failed),
    )
    client = await call("Viewer")
    app = create_app(Services(pool=pool, retention=kept))
    async with client_of(app, client.headers) as viewer:
        assert (await get(viewer, windowDays=asked))["windowDays"] == told


@pytest.mark.parametrize("days", ["0", "-1", "7.0", "", "week", "+7", "9" * 5000])
async def test_a_window_that_is_no_number_of_days_is_refused(admin, days):
    answer = await admin.get(PATH, params={"windowDays": days})

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == ["windowDays"]


@pytest.mark.parametrize("query", [{"page": 0}, {"pageSize": 101}])
async def test_a_page_that_means_nothing_is_refused(admin, query):
    assert (await admin.get(PATH, params=query)).status_code == 400


async def test_who_may_not_view_runs_is_refused(call):
    answer = await (await call("Nobody")).get(PATH)

    assert (answer.status_code, answer.json()["capability"]) == (403, "view_workflow_runs")


STATUSES = ("Succeeded", "Failed", "PartiallyFailed", "Cancelled")


@pytest.mark.parametrize("days", [1, 3, 4, 6, 20])
async def test_what_ended_in_the_window_is_the_same_however_it_is_counted(conn, days):
    flow = await add_workflow(conn, named("Counted"))
    await add_run(conn, flow)
    for age, status in enumerate(STATUSES * 3):
        await ended(conn, flow, status=status, at=ago(days=age, minutes=-1))
    expected = [one for one in (STATUSES * 3)[: days + 1] if one != "Cancelled"]
    length = timedelta(days=days)

    found = [
        (await health_of_workflows.page(conn, "default", Window(length, kept), Span(50, 0))).items
        for kept in (None, timedelta(days=7), timedelta(days=900))
    ]

    assert [[(one.succeeded, one.finished) for one in items] for items in found] == 3 * [
        [(expected.count("Succeeded"), len(expected))]
    ]


def test_most_of_what_is_kept_ended_in_half_of_its_time():
    kept = timedelta(days=7)

    assert not Window(timedelta(days=3), kept).holds_most
    assert Window(timedelta(days=4), kept).holds_most
    assert not Window(timedelta(days=90)).holds_most
