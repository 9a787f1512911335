"""Every refusal of a workflow: by POST, by PUT and by the check, under the same names."""

import json

import pytest
from fix_api import declare

URL = "https://hooks.example.org/articles"
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
HOOK = {"type": "Webhook", "parameters": {"Url": URL}}
SIGNED = {"type": "Webhook", "parameters": {"Url": URL, "Secret": SECRET}}
FLOW = {
    "name": "Announce",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [HOOK],
}


def one(action, **changes):
    return {"actions": [{**action, **changes}]}


def hook(**parameters):
    return one({"type": "Webhook", "parameters": {"Url": URL, **parameters}})


def branch(*children, text=None):
    then = text or json.dumps(children)
    return one(
        {
            "type": "Conditional",
            "parameters": {"Condition": "{{status}} == x", "ThenActions": then},
        }
    )


def nested(depth):
    inner = HOOK
    for _ in range(depth):
        inner = branch(inner)["actions"][0]
    return inner


A = "actions[0]"
P = f"{A}.parameters"
C = f"{A}.compensate"
T = f"{P}.ThenActions"
REFUSED = [
    ({"name": " "}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"triggerContentTypes": []}, "triggerContentTypes"),
    ({"triggerContentTypes": ["Article", ""]}, "triggerContentTypes[1]"),
    ({"triggerEvents": []}, "triggerEvents"),
    ({"triggerEvents": ["Published", "Sold"]}, "triggerEvents[1]"),
    ({"triggerEvents": ["Manual"]}, "triggerEvents[0]"),
    ({"triggerEvents": ["transition:Sell"]}, "triggerEvents[0]"),
    ({"triggerEvents": ["transition:Approve"], "triggerContentTypes": ["Article", "Page"]},
     "triggerEvents[0]"),
    ({"triggerEvents": ["transition:Approve"], "triggerContentTypes": ["Article", "Gone"]},
     "triggerEvents[0]"),
    ({"conditions": {"a": 1}}, "conditions.a"),
    ({"conditions": {str(at): "" for at in range(51)}}, "conditions"),
    ({"actions": []}, "actions"),
    ({"actions": [HOOK] * 51}, "actions"),
    ({"executor": "other"}, "executor"),
    ({"enabled": "true"}, "enabled"),
    (one({"type": "Fax"}), f"{A}.type"),
    (one({"type": "webhook", "parameters": {"Url": URL}}), f"{A}.type"),
    (one({"type": "Webhook"}), f"{P}.Url"),
    (hook(Url=" "), f"{P}.Url"),
    (hook(Other="x" * 262_145), f"{P}.Other"),
    (hook(Other=1), f"{P}.Other"),
    (hook(ATTEMPT="1"), f"{P}.ATTEMPT"),
    (hook(**{f"P{at}": "" for at in range(50)}), P),
    (hook(Url="/x"), f"{P}.Url"),
    (hook(Url="ftp://h/x"), f"{P}.Url"),
    (hook(Url="http://h/x", Secret=SECRET), f"{P}.Url"),
    (hook(Secret="hunter2"), f"{P}.Secret"),
    (hook(Secret=" ".join([SECRET] * 4)), f"{P}.Secret"),
    (branch(text="{"), T),
    (branch(text="{}"), T),
    (branch(text='[{"type": "Webhook", "type": "Sms"}]'), T),
    (branch(*[HOOK] * 21), T),
    (branch({"type": "Fax"}), f"{T}[0].type"),
    (branch({"type": "Webhook"}), f"{T}[0].parameters.Url"),
    (branch({**HOOK, "parameters": {"Url": 1}}), f"{T}[0].parameters.Url"),
    (branch({**HOOK, "onFailure": "Halt"}), f"{T}[0].onFailure"),
    (branch({**HOOK, "capture": ["a"]}), f"{T}[0].capture"),
    (branch({**HOOK, "compensate": HOOK}), f"{T}[0].compensate"),
    ({"actions": [nested(6)]}, T + "[0].parameters.ThenActions" * 5),
    (one(HOOK, onFailure="halt"), f"{A}.onFailure"),
    (one(HOOK, onFailure=1), f"{A}.onFailure"),
    (one(HOOK, capture=["a-b"]), f"{A}.capture[0]"),
    (one(HOOK, capture=[f"n{at}" for at in range(21)]), f"{A}.capture"),
    (one(HOOK, compensate=branch(HOOK)["actions"][0]), f"{C}.type"),
    (one(HOOK, compensate={"type": "Webhook"}), f"{C}.parameters.Url"),
    (one(HOOK, compensate={**HOOK, "onFailure": "Halt"}), f"{C}.onFailure"),
    (one(HOOK, compensate={**HOOK, "capture": ["a"]}), f"{C}.capture"),
    (one(HOOK, compensate={**HOOK, "compensate": HOOK}), f"{C}.compensate"),
]  # fmt: skip
NOT_TEXT = [
    (b'{"name": "\\u0000"}', "name"),
    (b'{"actions": [{"parameters": {"Url": "\\ud800"}}]}', "actions[0].parameters.Url"),
    (b'{"conditions": {"a": NaN}}', "conditions.a"),
]


@pytest.fixture(autouse=True)
async def types(admin):
    await declare(admin)
    await declare(admin, "Page", {})


@pytest.fixture
async def made(admin):
    answer = await admin.post("/api/workflows", json=FLOW)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def written(conn):
    cursor = await conn.execute(
        "select (select count(*) from workflow_version), (select count(*) from audit)"
    )
    return await cursor.fetchone()


async def test_each_fault_is_refused_by_its_name_wherever_it_is_sent(conn, admin, made):
    before = await written(conn)
    for changes, name in REFUSED:
        sent = {**FLOW, **changes}

        posted = await admin.post("/api/workflows", json=sent)
        put = await admin.put(f"/api/workflows/{made['id']}", json=sent)
        checked = await admin.post("/api/workflows/validate", json=sent)

        for answer in (posted, put):
            assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed"), name
            assert [each["name"] for each in answer.json()["errors"]] == [name]
        assert (checked.status_code, checked.json()["isValid"]) == (200, False)
        assert checked.json()["errors"] == posted.json()["errors"] == put.json()["errors"]
    assert await written(conn) == before


async def test_what_is_no_json_of_ours_is_refused_by_the_check_too(admin, made):
    headers = {"Content-Type": "application/json"}
    paths = [
        ("POST", "/api/workflows"),
        ("PUT", f"/api/workflows/{made['id']}"),
        ("POST", "/api/workflows/validate"),
        ("POST", "/api/workflows/dry-run"),
        ("POST", f"/api/workflows/{made['id']}/run"),
        ("PUT", f"/api/workflows/{made['id']}/enabled"),
    ]
    for method, path in paths:
        for body, name in NOT_TEXT:
            answer = await admin.request(method, path, content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "validation-failed")
            assert [one["name"] for one in answer.json()["errors"]] == [name]
        for body in (b"{", b"", b'{"a": 1, "a": 2}', b"[" * 100, b'{"a": ' * 100):
            answer = await admin.request(method, path, content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "malformed-json")
        large = await admin.request(method, path, content=b" " * 10_000_000, headers=headers)
        assert (large.status_code, large.json()["code"]) == (413, "body-too-large")
        plain = await admin.request(method, path, content=b"{}")
        assert (plain.status_code, plain.json()["code"]) == (415, "unsupported-media-type")


async def test_a_credential_is_stored_kept_cleared_or_refused_as_the_table_says(admin):
    """Sent, sent blank, left out; each of an action that is unchanged, and of one that is not."""
    moved = {"Url": "https://other.example.org"}
    rows = [
        ({"parameters": {"Url": URL, "Secret": SECRET}}, 200, ["Secret"]),
        ({"parameters": {**moved, "Secret": SECRET}}, 200, ["Secret"]),
        ({"parameters": {"Url": URL, "Secret": " "}}, 200, []),
        ({"parameters": {**moved, "Secret": ""}}, 200, []),
        ({"parameters": {"Url": URL}}, 200, ["Secret"]),
        ({"parameters": moved}, 400, None),
        ({"parameters": {"Url": URL, "Token": ""}}, 200, ["Secret"]),
        ({"parameters": {"Url": URL}, "credentialsSet": ["Secret", "Token"]}, 400, None),
        ({"parameters": {"Url": URL}, "onFailure": "Halt"}, 200, ["Secret"]),
    ]
    for where in ("action", "compensation"):
        for changes, status, kept in rows:
            sent, stored = {"type": "Webhook", **changes}, dict(SIGNED)
            if where == "compensation":
                if "onFailure" in sent:
                    continue
                sent, stored = {**HOOK, "compensate": sent}, {**HOOK, "compensate": stored}
            made = (await admin.post("/api/workflows", json={**FLOW, "actions": [stored]})).json()

            answer = await admin.put(
                f"/api/workflows/{made['id']}", json={**FLOW, "actions": [sent]}
            )

            assert answer.status_code == status, (where, changes)
            if status == 200:
                action = answer.json()["actions"][0]
                told = action if where == "action" else action["compensate"]
                assert told["credentialsSet"] == kept, (where, changes)
            else:
                (error,) = answer.json()["errors"]
                assert error["name"].startswith(f"{A if where == 'action' else C}.parameters.")


async def test_the_credentials_of_a_child_stay_with_an_unchanged_conditional(admin):
    stored = branch(SIGNED)["actions"]
    made = (await admin.post("/api/workflows", json={**FLOW, "actions": stored})).json()
    path = f"/api/workflows/{made['id']}"
    told = made["actions"][0]
    other = {**told, "parameters": {**told["parameters"], "Condition": "{{status}} == y"}}

    kept = await admin.put(path, json={**FLOW, "name": "N", "actions": [told]})
    refused = await admin.put(path, json={**FLOW, "actions": [other]})
    emptied = await admin.put(path, json={**FLOW, "actions": branch(HOOK)["actions"]})

    (child,) = json.loads(kept.json()["actions"][0]["parameters"]["ThenActions"])
    assert (kept.json()["version"], child["credentialsSet"]) == (2, ["Secret"])
    assert (refused.status_code, [one["name"] for one in refused.json()["errors"]]) == (
        400,
        [f"{T}[0].parameters.Secret"],
    )
    assert emptied.status_code == 200
    assert [one["field"] for one in emptied.json()["warnings"]] == [f"{T}[0].parameters.Secret"]


async def test_fifty_warnings_are_told_and_how_many_more_there_are(admin):
    odd = {f"odd{at}": 1 for at in range(53)}

    made = (await admin.post("/api/workflows", json={**FLOW, **odd})).json()
    checked = (await admin.post("/api/workflows/validate", json={**FLOW, **odd})).json()

    assert len(made["warnings"]) == 51
    assert made["warnings"][-1] == {"field": "", "message": "3 more warnings are left out"}
    assert checked["warnings"] == made["warnings"]
