"""Trying a workflow with an entry: what it shows, why it would not fire, and what it refuses."""

import json

import pytest
from fix_api import RING, client_of, declare

from procession.actions.load import built_in, load
from procession.api.app import create_app
from procession.api.services import Services
from procession.engine import dry_run
from procession.engine.templates import LONGEST
from procession.engine.workflow import ActionDefinition, Definition

PATH = "/api/workflows/dry-run"
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
WEBHOOK = {
    "type": "Webhook",
    "parameters": {"Url": "https://h.example.org/{{id}}?t={{data.Title}}", "Secret": SECRET},
}
FLOW = {
    "name": "Announce",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published", "transition:Approve"],
    "actions": [WEBHOOK],
}
ENTRY = {"contentType": "Article", "status": "Published", "data": {"Title": "A <b>"}}


@pytest.fixture(autouse=True)
async def declared(admin):
    await declare(admin)


def mail(**parameters):
    sent = {"To": "a@example.org", "Subject": "s", "Body": "b", **parameters}
    return {"type": "Email", "parameters": sent}


async def ask(client, body=None, **workflow):
    body = {"entry": ENTRY} if body is None else body
    return await client.post(PATH, json={"workflow": {**FLOW, **workflow}, **body})


async def shown(client, body=None, **workflow):
    answer = await ask(client, body, **workflow)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def rendered(client, text, entry=None, **more):
    """What becomes of a text in an Sms, and what is warned of."""
    sms = {"type": "Sms", "parameters": {"To": "+639170000000", "Message": text}}
    found = await shown(client, {"entry": {**ENTRY, **(entry or {})}, **more}, actions=[sms])
    return found["actions"][0]["parameters"]["Message"], found["warnings"]


async def counts(conn):
    tables = ("run", "workflow", "workflow_version", "entry", "audit", "procrastinate_jobs")
    cursor = await conn.execute(" union all ".join(f"select count(*) from {one}" for one in tables))
    return [count for (count,) in await cursor.fetchall()]


async def test_parameters_are_shown_as_an_attempt_would_get_them(conn, admin):
    before = await counts(conn)

    answer = await ask(admin)

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "matches": True,
            "failingCondition": None,
            "actions": [{
                "ordinal": 0,
                "type": "Webhook",
                "parameters": {"Url": "https://h.example.org/sample?t=A%20%3Cb%3E"}}],
            "warnings": [],
        },
    )  # fmt: skip
    assert SECRET not in answer.text
    assert await counts(conn) == before


async def test_each_parameter_is_encoded_as_where_it_lands(admin):
    hook = {"type": "Webhook", "parameters": {"Url": "https://h.example.org/{{data.Title}}"}}
    found = await shown(
        admin, actions=[mail(Subject="{{data.Title}}", Body="{{data.Title}}"), hook]
    )

    assert [one["ordinal"] for one in found["actions"]] == [0, 1]
    assert found["actions"][0]["parameters"] == {
        "To": "a@example.org",
        "Subject": "A <b>",
        "Body": "A &lt;b&gt;",
    }


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{{status}} {{contentType}} {{id}}", "Published Article sample"),
        ("{{createdBy.name}} {{createdBy.email}}", "Sample Author author@example.com"),
        ("{{transition.name}}/{{transition.by.name}}", "/"),
        ("{{data.Price | money}}", "PHP 1,250.50"),
        ('{{data.Day | date "d MMM yyyy HH:mm"}}', "30 Nov 2026 16:00"),
        ("{{data.Nope}} {{nope}} {{data.Secret}}", "{{data.Nope}} {{nope}} {{data.Secret}}"),
        ("{{data.Note}}", "n"),
        ('{{links.site "/x"}}', "https://acme.example.org/x"),
        ("{{links.run}}", ""),
        ("{{actions.0.id}} {{actions.7.x | upper}}", "{{actions.0.id}} {{actions.7.x | upper}}"),
    ],
)
async def test_placeholders_read_the_sample(conn, admin, text, result):
    await conn.execute(
        "update tenant set time_zone = 'Asia/Manila', currency = 'PHP',"
        " site_url = 'https://acme.example.org' where slug = 'default'"
    )
    data = {"Price": "1250.5", "Day": "2026-11-30T08:00:00Z", "Note": "n", "Secret": "s"}

    try:
        message, _ = await rendered(admin, text, {"data": data})
    finally:
        await conn.execute("update tenant set time_zone = 'UTC', currency = 'USD', site_url = null")

    assert message == result


async def test_a_transition_is_one_when_it_is_the_trigger(admin):
    text = "{{transition.name}} {{transition.by.name}} {{transition.at | date}}"

    named, _ = await rendered(admin, text, trigger="TRANSITION:approve")
    sms = {"type": "Sms", "parameters": {"To": "+639170000000", "Message": text}}
    first = await shown(admin, actions=[sms], triggerEvents=["transition:Submit", "Created"])

    assert named.startswith("Approve Sample Author 2")
    assert first["actions"][0]["parameters"]["Message"].startswith("Submit Sample Author 2")


async def test_links_lead_to_the_console(pool, admin):
    catalogue = load(built_in(), []).catalogue()
    services = Services(
        pool=pool, ring=RING, catalogue=catalogue, console_url="https://c.example.org/"
    )
    async with client_of(create_app(services), admin.headers) as client:
        message, _ = await rendered(client, "{{links.entry}} {{links.run}}")

    assert message == (
        "https://c.example.org/entries/Article/sample"
        " https://c.example.org/runs/00000000-0000-0000-0000-000000000000"
    )


async def test_other_entries_give_what_is_public_of_them(admin, call):
    people = {"fields": {"Name": {}, "Salary": {"sensitivity": "Sensitive"}}}
    await declare(admin, "Person", people)
    for client in (admin, await call("Admin", "acme")):
        if client is not admin:
            await declare(client, "Person", people)
        sent = {"data": {"Name": f"Ann {client is admin}", "Salary": "9"}}
        assert (await client.put("/api/entries/Person/p-1", json=sent)).status_code == 201
    author = {"contentType": "Person", "id": "p-1"}
    gone = {"contentType": "Person", "id": "p-2"}
    text = "{{data.Author.Name}}/{{data.Author.Salary}}"
    await admin.put("/api/roles/Writer", json={"capabilities": ["manage_workflows"]})

    one, _ = await rendered(admin, text, {"data": {"Author": author}})
    many, _ = await rendered(
        admin,
        "{{#each data.Author}}{{item.id}}={{item.Name}};{{/each}}",
        {"data": {"Author": [author, gone]}},
    )
    blind, _ = await rendered(await call("Writer"), text, {"data": {"Author": author}})

    assert (one, many, blind) == ("Ann True/", "p-1=Ann True;p-2=;", "/")


async def test_branches_are_shown_as_written_without_their_credentials(admin):
    then = json.dumps([WEBHOOK])
    parameters = {"Condition": "{{status}} == Draft", "ThenActions": then, "ElseActions": "[]"}

    answer = await ask(admin, actions=[{"type": "Conditional", "parameters": parameters}])

    (action,) = answer.json()["actions"]
    assert action["parameters"]["Condition"] == "{{status}} == Draft"
    (child,) = json.loads(action["parameters"]["ThenActions"])
    assert child["parameters"] == {"Url": WEBHOOK["parameters"]["Url"]}
    assert SECRET not in answer.text


async def test_what_is_deleted_leaves_no_data_behind(admin):
    message, _ = await rendered(admin, "{{id}} {{status}} {{data.Title}}", trigger="deleted")
    judged = await shown(
        admin,
        {"entry": ENTRY, "trigger": "Deleted"},
        triggerEvents=["Deleted"],
        conditions={"Title": "A <b>"},
    )

    assert message == "sample  {{data.Title}}"
    assert (judged["matches"], judged["failingCondition"]) == (False, "Title")


@pytest.mark.parametrize(
    ("conditions", "failing"),
    [
        ({}, None),
        ({"Title": "A <b>", "Status": "Published"}, None),
        ({"Title": "A <b>", "Status": "Draft", "Language": "en"}, "Status"),
        ({"Language": ""}, "Language"),
    ],
)
async def test_the_first_condition_that_fails_is_named(admin, conditions, failing):
    found = await shown(admin, conditions=conditions)

    assert (found["matches"], found["failingCondition"]) == (failing is None, failing)
    assert found["warnings"] == []


async def test_why_it_would_not_fire_is_told(admin):
    await declare(admin, "Page", {})
    page = {"contentType": "Page", "data": {}}

    off = await shown(admin, enabled=False)
    event = await shown(admin, {"entry": ENTRY, "trigger": "Created"})
    other = await shown(admin, {"entry": page})
    by_hand = await shown(admin, {"entry": ENTRY, "trigger": "manual"})

    assert [one["matches"] for one in (off, event, other, by_hand)] == [False, False, False, True]
    assert [one["warnings"][0] for one in (off, event, other)] == [
        {"field": "workflow.enabled", "message": "is false: nothing fires the workflow"},
        {"field": "trigger", "message": "Created is none that the workflow names"},
        {"field": "entry.contentType", "message": "is none that the workflow names"},
    ]
    assert all(one["failingCondition"] is None for one in (off, event, other))


async def test_warnings_say_where_in_the_body_they_are(admin):
    found = await shown(
        admin,
        {"entry": {**ENTRY, "data": {"Title": "x", "Colour": "red"}}},
        odd=1,
        actions=[mail(Body="{{data.Nope}}")],
    )

    assert [one["field"] for one in found["warnings"]] == [
        "entry.data.Colour",
        "workflow.odd",
        "workflow.actions[0].parameters.Body",
    ]


async def test_at_most_fifty_warnings_are_told_and_how_many_are_left(admin):
    data = {f"F{one}": 1 for one in range(40)}
    odd = {f"odd{one}": 1 for one in range(60)}

    found = await shown(admin, {"entry": {**ENTRY, "data": data}}, **odd)

    assert len(found["warnings"]) == 51
    assert found["warnings"][-1] == {"field": "", "message": "50 more warnings are left out"}


async def test_what_grows_too_long_is_left_as_it_is_written(admin):
    data = {"Title": "x" * 300_000}
    actions = [mail(Body="{{data.Title}}" * times) for times in (4, 3, 1, 3, 3, 3, 3)]

    answer = await ask(admin, {"entry": {**ENTRY, "data": data}}, actions=actions)

    found = answer.json()
    bodies = [one["parameters"]["Body"] for one in found["actions"]]
    assert bodies[0] == "{{data.Title}}" * 4
    assert [len(one) for one in bodies[1:3]] == [900_000, 300_000]
    assert bodies[-1] == "{{data.Title}}" * 3
    assert len(answer.content) < 6 * LONGEST
    told = {one["field"]: one["message"] for one in found["warnings"]}
    assert told["workflow.actions[0].parameters.Body"].startswith("would be longer than 1,048,576")
    assert told["workflow.actions[6].parameters.Body"].startswith("is left as it is written")


async def test_what_reads_too_much_is_left_as_it_is_written(admin):
    """Nothing that is read gives any text, so nothing but the reading itself is bounded."""
    author = [{"contentType": "Person", "id": f"p-{one}"} for one in range(50)]
    many = "{{#each data.Author}}" + "{{item.Name}}" * 900 + "{{/each}}"
    body = {"entry": {**ENTRY, "data": {"Author": author}}}

    found = await shown(admin, body, actions=[mail(Body=many), mail(Body=many)])

    bodies = [one["parameters"]["Body"] for one in found["actions"]]
    assert bodies == ["", many]
    assert [one["field"] for one in found["warnings"]] == ["workflow.actions[1].parameters.Body"]


async def test_what_is_left_as_it_is_written_is_not_looked_at():
    """Walks over all of them took seconds, for which the trials of other tenants waited."""
    many = "{{id}}" * 40_000
    actions = [ActionDefinition(type="Sms", parameters={"Message": many}) for _ in range(20)]
    definition = Definition(
        name="x", trigger_content_types=(), trigger_events=(), actions=tuple(actions)
    )
    catalogue = load(built_in(), []).catalogue()

    assert [*dry_run.texts(definition, catalogue)] == [many]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ([], ["workflow", "body"]),
        ({}, ["workflow", "entry"]),
        ({"workflow": None, "entry": ENTRY}, ["workflow"]),
        ({"workflow": [], "entry": {}}, ["workflow", "entry.contentType", "entry.data"]),
        ({"workflow": FLOW, "entry": {"contentType": "1", "data": []}},
         ["entry.contentType", "entry.data"]),
        ({"workflow": FLOW, "entry": {"contentType": "Nope", "data": {}}}, ["entry.contentType"]),
        ({"workflow": FLOW, "entry": {**ENTRY, "status": "Gone"}}, ["entry.status"]),
        ({"workflow": FLOW, "entry": {**ENTRY, "data": {"Rank": "x", "Live": 1}}},
         ["entry.data.Rank", "entry.data.Live"]),
        ({"workflow": FLOW, "entry": ENTRY, "trigger": 1}, ["trigger"]),
        ({"workflow": FLOW, "entry": ENTRY, "trigger": "Sold"}, ["trigger"]),
        ({"workflow": FLOW, "entry": ENTRY, "trigger": "transition:Sell"}, ["trigger"]),
        ({"workflow": {**FLOW, "name": "", "actions": [{"type": "Fax"}]},
          "entry": {**ENTRY, "status": "Gone"}, "trigger": ""},
         ["workflow.name", "workflow.actions[0].type", "trigger", "entry.status"]),
        ({"workflow": {**FLOW, "executor": "x", "triggerEvents": ["transition:Sell"]},
          "entry": ENTRY},
         ["workflow.triggerEvents[0]", "workflow.executor"]),
    ],
)  # fmt: skip
async def test_all_that_is_wrong_is_told_by_its_place_in_the_body(admin, body, names):
    answer = await admin.post(PATH, json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
    assert [one["name"] for one in answer.json()["errors"]] == names


async def test_a_trigger_that_is_none_is_told_those_that_there_are(admin):
    await declare(admin, "Page", {})
    entries = [ENTRY, {"contentType": "Page", "data": {}}]

    reasons = [
        (await ask(admin, {"entry": one, "trigger": "Sold"})).json()["errors"][0]["reason"]
        for one in entries
    ]

    known = "must be one of Created, Updated, Deleted, Published, Unpublished, Manual"
    declares = "transition:Recall, transition:Submit, transition:Approve"
    assert reasons == [
        f"{known} or a transition of Article: {declares}",
        f"{known} or a transition of Page: it declares none",
    ]


async def test_the_workflow_of_an_answer_can_be_tried_as_it_is(admin):
    made = (await admin.post("/api/workflows", json=FLOW)).json()

    answer = await admin.post(PATH, json={"workflow": made, "entry": ENTRY})

    assert answer.status_code == 200
    assert answer.json()["matches"] is True


async def test_content_types_are_those_of_the_tenant(call):
    stranger = await call("Admin", "acme")

    answer = await ask(stranger)

    assert [one["name"] for one in answer.json()["errors"]] == [
        "workflow.triggerEvents[1]",
        "entry.contentType",
    ]


async def test_who_may_not_manage_workflows_is_refused(call):
    answer = await ask(await call("Operator"))

    assert (answer.status_code, answer.json()["capability"]) == (403, "manage_workflows")
