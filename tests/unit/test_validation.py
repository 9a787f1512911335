import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.engine.catalogue import ActionType, Catalogue, Parameter, Repeatable
from procession.engine.content_type import (
    ContentType,
    Field,
    Kind,
    Lifecycle,
    Sensitivity,
    Transition,
)
from procession.engine.errors import Concern, Fault
from procession.engine.findings import Surroundings, told_concerns, told_faults
from procession.engine.validation import capped, check_definition
from procession.engine.workflow import ActionDefinition, Compensate, Definition, OnFailure

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
REQUIRED_URL = Parameter("Url", required=True)
CATALOGUE = Catalogue(
    {
        "Webhook": ActionType(
            parameters=(REQUIRED_URL, Parameter("Secret", credential=True)),
            repeatable=Repeatable.ALWAYS,
        ),
        "PostInvoice": ActionType(
            parameters=(Parameter("Amount", required=True), Parameter("Data.*")),
            outputs=("invoiceId",),
        ),
        "Conditional": ActionType(
            parameters=(
                Parameter("Condition", required=True),
                Parameter("ThenActions", required=True),
                Parameter("ElseActions"),
            )
        ),
    }
)


def lifecycle(*names):
    return Lifecycle(transitions={name: Transition(("Draft",), "Published") for name in names})


TYPES = {
    "Article": ContentType(
        {
            "Title": Field(),
            "Author": Field(Kind.REFERENCE),
            "Note": Field(Kind.TEXT, Sensitivity.HIDDEN),
        },
        lifecycle("Approve", "Reject"),
    ),
    "Page": ContentType({"Title": Field()}, lifecycle("Approve")),
    "Shout": ContentType({}, lifecycle("APPROVE")),
    "Bare": ContentType(),
}
AROUND = Surroundings(CATALOGUE, TYPES)
HOOK = {"type": "Webhook", "parameters": {"Url": "https://hooks.example.org/a"}}
BODY = {
    "name": "Announce",
    "triggerContentTypes": ["Article"],
    "triggerEvents": ["Published"],
    "actions": [HOOK],
}


def check(around=AROUND, **changes):
    return check_definition(BODY | changes, around)


def faults(**changes):
    checked = check(**changes)
    assert (checked.definition is None) == bool(checked.faults)
    return [one.name for one in checked.faults]


def action_faults(*actions):
    return faults(actions=list(actions))


def concerns(**changes):
    checked = check(**changes)
    assert not checked.faults
    return [one.field for one in checked.concerns]


def hook(**parameters):
    return {"type": "Webhook", "parameters": HOOK["parameters"] | parameters}


def test_a_sound_body_is_a_definition():
    checked = check(
        triggerContentTypes=["Article", "Page", "Article"],
        triggerEvents=["published", "TRANSITION:approve", "Published"],
        conditions={"Zeta": "1", "Alpha": ""},
        actions=[
            HOOK | {"onFailure": "Halt"},
            {
                "type": "PostInvoice",
                "parameters": {"Amount": "{{data.Title}}", "Data.X": None},
                "onFailure": None,
                "capture": ["invoiceId", "invoiceId"],
                "compensate": HOOK,
            },
        ],
        executor=None,
        enabled=False,
    )

    assert (checked.faults, checked.concerns, checked.enabled) == ((), (), False)
    assert checked.definition == Definition(
        name="Announce",
        trigger_content_types=("Article", "Page"),
        trigger_events=("Published", "transition:Approve"),
        conditions={"Zeta": "1", "Alpha": ""},
        actions=(
            ActionDefinition(
                type="Webhook", parameters=HOOK["parameters"], on_failure=OnFailure.HALT
            ),
            ActionDefinition(
                type="PostInvoice",
                parameters={"Amount": "{{data.Title}}"},
                capture=("invoiceId",),
                compensate=Compensate(type="Webhook", parameters=HOOK["parameters"]),
            ),
        ),
    )
    assert list(checked.definition.conditions) == ["Zeta", "Alpha"]
    assert check().enabled


def test_all_faults_are_told_together():
    body = {
        "triggerContentTypes": ["", 1],
        "triggerEvents": ["Created", "Manual"],
        "conditions": {"a": 1},
        "actions": [{"type": "Nope"}, 5, HOOK | {"onFailure": 1}],
        "executor": "far",
        "enabled": 1,
    }

    assert [one.name for one in check_definition(body, AROUND).faults] == [
        "triggerContentTypes[1]",
        "triggerContentTypes[0]",
        "name",
        "triggerEvents[1]",
        "conditions.a",
        "actions[0].type",
        "actions[1]",
        "actions[1].type",
        "actions[2].onFailure",
        "executor",
        "enabled",
    ]


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_is_an_object(body):
    assert [one.name for one in check_definition(body, AROUND).faults] == ["body"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"name": "x" * 200}, []),
        ({"name": "x" * 201}, ["name"]),
        ({"name": " \n"}, ["name"]),
        ({"name": None}, ["name"]),
        ({"triggerContentTypes": None}, ["triggerContentTypes"]),
        ({"triggerContentTypes": []}, ["triggerContentTypes"]),
        ({"triggerContentTypes": "Article"}, ["triggerContentTypes"]),
        ({"triggerContentTypes": [f"T{one}" for one in range(50)]}, []),
        ({"triggerContentTypes": [f"T{one}" for one in range(51)]}, ["triggerContentTypes"]),
        ({"triggerContentTypes": ["Article", " "]}, ["triggerContentTypes[1]"]),
        ({"triggerContentTypes": ["a b"]}, ["triggerContentTypes[0]"]),
        ({"triggerEvents": []}, ["triggerEvents"]),
        ({"triggerEvents": ["Created", "Boiled"]}, ["triggerEvents[1]"]),
        ({"triggerEvents": ["manual"]}, ["triggerEvents[0]"]),
        ({"triggerEvents": [None]}, ["triggerEvents[0]"]),
        ({"triggerEvents": ["transition:"]}, ["triggerEvents[0]"]),
        ({"conditions": None}, []),
        ({"conditions": []}, ["conditions"]),
        ({"conditions": {str(one): "" for one in range(50)}}, []),
        ({"conditions": {str(one): "" for one in range(51)}}, ["conditions"]),
        ({"conditions": {"a": "x" * 2000}}, []),
        ({"conditions": {"a": "x" * 2001, "b": None}}, ["conditions.a", "conditions.b"]),
        ({"actions": []}, ["actions"]),
        ({"actions": None}, ["actions"]),
        ({"actions": {}}, ["actions"]),
        ({"actions": [HOOK] * 50}, []),
        ({"actions": [HOOK] * 51}, ["actions"]),
        ({"executor": ""}, ["executor"]),
    ],
)
def test_the_bounds_of_a_workflow(changes, names):
    assert faults(**changes) == names


@pytest.mark.parametrize("null", [{}, dict.fromkeys(BODY)])
def test_what_is_missing_is_required(null):
    checked = check_definition(null, AROUND)

    assert {one.name for one in checked.faults} == set(BODY)
    assert {one.reason for one in checked.faults} == {"is required"}


@pytest.mark.parametrize(
    ("content_types", "reason"),
    [
        (["Article", "Bare"], "Bare declares no transition"),
        (["Article", "Gone"], "Gone does not exist"),
        (["Article", "Shout"], "Article declares Approve, Reject; Shout declares APPROVE"),
    ],
)
def test_a_transition_is_one_that_each_content_type_declares_alike(content_types, reason):
    checked = check(triggerContentTypes=content_types, triggerEvents=["transition:approve"])

    assert [one.name for one in checked.faults] == ["triggerEvents[0]"]
    assert reason in checked.faults[0].reason


def test_an_unknown_type_is_answered_with_the_known_ones():
    checked = check(actions=[{"type": "webhook", "parameters": {}}])

    (fault,) = checked.faults
    assert fault.name == "actions[0].type"
    assert "Conditional, PostInvoice, Webhook" in fault.reason


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"Url": " "}, ["Url"]),
        ({"Url": None}, ["Url"]),
        ({"Url": 1}, ["Url"]),
        ({"runid": "x"}, ["runid"]),
        ({"IdempotencyKey": "x", "COMPENSATIONOF": ""}, ["IdempotencyKey", "COMPENSATIONOF"]),
        ({"": "x"}, [""]),
        ({"n" * 100: "x"}, []),
        ({"n" * 101: "x"}, ["n" * 101]),
        ({"A": "x" * 262_144}, []),
        ({"A": "x" * 262_145}, ["A"]),
        ({"A": True}, ["A"]),
        ({"A": None}, []),
        ({"Url": "http://h"}, []),
        ({"Url": "HTTPS://H:1/x?y"}, []),
        ({"Url": "{{data.Url}}"}, []),
        ({"Url": "https://{{data.Host}}/x"}, []),
        ({"Url": "/x"}, ["Url"]),
        ({"Url": "ftp://h/x"}, ["Url"]),
        ({"Url": "https://"}, ["Url"]),
        ({"Url": "https:///x"}, ["Url"]),
        ({"Url": "https://[x"}, ["Url"]),
        ({"Url": " https://h"}, ["Url"]),
        ({"Url": "x{{data.Url}}"}, ["Url"]),
        ({"Secret": SECRET}, []),
        ({"Secret": f" {SECRET} {SECRET} {SECRET} "}, []),
        ({"Secret": f"{SECRET} {SECRET} {SECRET} {SECRET}"}, ["Secret"]),
        ({"Secret": f"{SECRET}  {SECRET}"}, ["Secret"]),
        ({"Secret": "whsec_AAAA"}, ["Secret"]),
        ({"Secret": "hunter2"}, ["Secret"]),
        ({"Secret": "  "}, []),
        ({"Url": "http://h", "Secret": SECRET}, ["Url"]),
        ({"Url": "http://h", "Secret": "x"}, ["Url", "Secret"]),
    ],
)
def test_the_parameters_of_a_webhook(parameters, names):
    assert action_faults(hook(**parameters)) == [f"actions[0].parameters.{one}" for one in names]


def test_a_signed_webhook_over_http_may_be_allowed():
    around = Surroundings(CATALOGUE, TYPES, insecure_signed_urls=True)

    assert check(around, actions=[hook(Url="http://h", Secret=SECRET)]).faults == ()


def test_at_most_fifty_parameters():
    assert action_faults(hook(**{f"P{one}": "" for one in range(50)})) == ["actions[0].parameters"]
    assert action_faults({"type": "Webhook", "parameters": []}) == [
        "actions[0].parameters",
        "actions[0].parameters.Url",
    ]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"onFailure": "halt"}, ["onFailure"]),
        ({"onFailure": {}}, ["onFailure"]),
        ({"capture": "a"}, ["capture"]),
        ({"capture": [f"n{one}" for one in range(20)] * 2}, []),
        ({"capture": [f"n{one}" for one in range(21)]}, ["capture"]),
        ({"capture": ["a-b", 1, "x" * 65]}, ["capture[1]", "capture[0]", "capture[2]"]),
        ({"compensate": []}, ["compensate", "compensate.type"]),
        ({"compensate": {"type": "Conditional"}}, ["compensate.type"]),
        ({"compensate": {"type": "Webhook"}}, ["compensate.parameters.Url"]),
        (
            {"compensate": HOOK | {"onFailure": "Halt", "capture": [], "compensate": HOOK}},
            ["compensate.onFailure", "compensate.capture", "compensate.compensate"],
        ),
    ],
)
def test_policy_capture_and_compensation(changes, names):
    assert action_faults(HOOK | changes) == [f"actions[0].{one}" for one in names]


def conditional(then, otherwise=None):
    texts = {"ThenActions": then, "ElseActions": otherwise}
    branches = {
        name: value if isinstance(value, str | None) else json.dumps(value)
        for name, value in texts.items()
    }
    return {"type": "Conditional", "parameters": {"Condition": "{{status}} == x", **branches}}


def nested(depth):
    inner = [HOOK]
    for _ in range(depth):
        inner = [conditional(inner)]
    return inner[0]


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (conditional([HOOK], [HOOK]), []),
        (conditional([]), []),
        (conditional(None), ["ThenActions"]),
        (conditional("{"), ["ThenActions"]),
        (conditional("{}"), ["ThenActions"]),
        (conditional("[1]"), ["ThenActions"]),
        (conditional("[NaN]"), ["ThenActions"]),
        (conditional("[" * 100_000), ["ThenActions"]),
        (conditional('[{"type":"Webhook","type":"Webhook"}]'), ["ThenActions"]),
        (conditional([HOOK] * 20), []),
        (conditional([HOOK] * 21), ["ThenActions"]),
        (conditional([], [HOOK, {"type": "Nope"}]), ["ElseActions[1].type"]),
        (conditional([hook(Url="x")]), ["ThenActions[0].parameters.Url"]),
        (conditional([hook(A=1)]), ["ThenActions[0].parameters.A"]),
        (conditional([hook(A="\ud800")]), ["ThenActions[0].parameters.A"]),
        (conditional([HOOK | {"onFailure": "Halt"}]), ["ThenActions[0].onFailure"]),
        (conditional([HOOK | {"capture": ["a"]}]), ["ThenActions[0].capture"]),
        (conditional([HOOK | {"compensate": HOOK}]), ["ThenActions[0].compensate"]),
        (nested(5), []),
        (
            nested(6),
            [".parameters.".join(["ThenActions[0]"] * 5) + ".parameters.ThenActions"],
        ),
    ],
)
def test_the_branches_of_a_conditional(action, names):
    assert action_faults(action) == [f"actions[0].parameters.{one}" for one in names]


def invoice(amount="1", **changes):
    return {"type": "PostInvoice", "parameters": {"Amount": amount}} | changes


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"triggerContentTypes": ["Article", "Gone"]}, ["triggerContentTypes[1]"]),
        ({"color": 1, "id": "x", "version": 3, "createdAt": "", "updatedAt": ""}, ["color"]),
        ({"actions": [HOOK | {"color": 1, "credentialsSet": []}]}, ["actions[0].color"]),
        ({"actions": [hook(Other="x")]}, ["actions[0].parameters.Other"]),
        ({"actions": [invoice() | {"capture": ["a"]}]}, ["actions[0].capture[0]"]),
        (
            {"actions": [invoice(compensate=hook(Other="x") | {"color": 1})]},
            ["actions[0].compensate.color", "actions[0].compensate.parameters.Other"],
        ),
        (
            {"actions": [conditional([hook(Other="x")])]},
            ["actions[0].parameters.ThenActions[0].parameters.Other"],
        ),
        ({"actions": [{"type": "PostInvoice", "parameters": {"Amount": "1", "Data.X": ""}}]}, []),
    ],
)
def test_what_is_unknown_is_warned_of(changes, fields):
    assert concerns(**changes) == fields


CAPTURING = invoice(capture=["invoiceId"])


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("{{data.Title}} {{status | upper}} {{transition.by.name}} {{links.run}}", False),
        ('{{links.site "x"}} {{createdBy.email}} {{hours createdAt updatedAt}}', False),
        ("{{data.Author.Name}} {{#each data.Author}}{{item.Name}}{{/each}}", False),
        ("{{ no opener ends", False),
        ("{{actions.0.invoiceId}}", False),
        ("{{nope}}", True),
        ("{{?}}", True),
        ("{{item.Name}}", True),
        ("{{data.Nope}}", True),
        ("{{data.Note}}", True),
        ("{{data.Title.Name}}", True),
        ("{{#each data.Title}}{{/each}}", True),
        ("{{#each status}}{{/each}}", True),
        ("{{actions.0.other}}", True),
        ("{{actions.1.invoiceId}}", True),
        ("{{actions.2.invoiceId}}", True),
        ("{{actions.7.invoiceId}}", True),
        ("{{actions.0.invoiceId | upper}}", True),
        ('{{updatedAt | date "d MMM yyyy" "Asia/Manila"}} {{data.Title | money "PHP"}}', False),
        ("{{createdAt | date}} {{data.Title | money}} {{data.Title | lower}}", False),
        ('{{data.Title | mony "EUR"}}', True),
        ('{{data.Title | money "euro"}}', True),
        ('{{data.Title | upper "x"}}', True),
        ('{{createdAt | date "yyy"}}', True),
        ('{{createdAt | date "d MMM" "Asia/Manilla"}}', True),
    ],
)
def test_a_placeholder_that_gives_nothing_is_warned_of(text, warned):
    path = ["actions[1].parameters.Amount"] if warned else []

    assert concerns(actions=[CAPTURING, invoice(text), CAPTURING]) == path


def test_a_field_is_missed_for_each_content_type_by_its_name():
    checked = check(triggerContentTypes=["Article", "Bare"], actions=[invoice("{{data.Title}}")])

    (concern,) = checked.concerns
    assert concern.field == "actions[0].parameters.Amount"
    assert "Bare" in concern.message


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("{{id}} {{contentType}} {{links.run}} {{transition.name}}", 0),
        ("{{data.Title}} {{data.Title}}", 1),
        ("{{status | upper}}", 1),
        ("{{hours createdAt updatedAt}}", 1),
        ("{{#each data.Author}}{{item.id}}{{/each}}", 1),
        ("{{createdBy.name}} {{data.Author.Name}}", 2),
        ("{{nope}}", 1),
    ],
)
def test_what_a_deleted_entry_no_longer_gives_is_warned_of(text, warned):
    path = "actions[0].parameters.Amount"
    events = ["Published", "deleted"]

    assert concerns(triggerEvents=events, actions=[invoice(text)]) == [path] * warned
    told = check(triggerEvents=events, actions=[invoice("{{data.Title}}")]).concerns
    assert [one.message for one in told] == [
        "{{data.Title}} gives nothing for Deleted, when the entry is gone"
    ]
    undo = invoice(compensate=invoice("{{status}}"))
    assert concerns(triggerEvents=events, actions=[undo]) == [
        "actions[0].compensate.parameters.Amount"
    ]


def test_an_undo_may_read_every_output_and_a_branch_none():
    undo = {"compensate": invoice("{{actions.0.invoiceId}}{{actions.1.invoiceId}}")}
    assert concerns(actions=[CAPTURING | undo, CAPTURING]) == []

    branch = conditional([invoice("{{actions.0.invoiceId}}{{data.Nope}}")])
    assert (
        concerns(actions=[CAPTURING, branch])
        == ["actions[1].parameters.ThenActions[0].parameters.Amount"] * 2
    )


def test_what_is_not_rendered_is_not_warned_of():
    secret = {"type": "PostInvoice", "parameters": {"Amount": "1", "Data.ApiToken": "{{nope}}"}}

    assert concerns(actions=[secret]) == []
    assert concerns(actions=[conditional([]) | {}]) == []


def test_of_the_warnings_of_many_placeholders_no_more_are_made_than_are_shown():
    types = {f"T{one}": ContentType({}) for one in range(50)}
    names = "".join(f"{{{{data.F{one}}}}}" for one in range(1000))

    checked = check(
        Surroundings(CATALOGUE, types),
        triggerContentTypes=[*types],
        actions=[invoice(names * 2)],
    )

    assert (len(checked.concerns), checked.left_out) == (50, 50 * 1000 - 50)
    assert capped(checked.concerns, checked.left_out)[50].message.startswith("49950 more")


def test_an_each_is_named_by_its_beginning():
    (told,) = check(actions=[invoice("{{#each data.Nope}}" + "x" * 9_000 + "{{/each}}")]).concerns

    assert told.message.startswith("{{#each data.Nope}} gives nothing")


def test_fifty_warnings_are_shown_and_the_rest_counted():
    many = tuple(Concern(f"f{one}", "") for one in range(53))

    assert capped(many[:50]) == many[:50]
    assert capped(many)[:50] == many[:50]
    assert "3 more" in capped(many)[50].message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
ACTION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["Webhook", "Conditional", "PostInvoice"]) | JSON,
        "parameters": st.dictionaries(
            st.sampled_from(["Url", "Secret", "ThenActions", "ElseActions", "Amount"]) | st.text(),
            JSON | JSON.map(json.dumps),
        )
        | JSON,
        "onFailure": JSON,
        "capture": st.lists(st.text()) | JSON,
        "compensate": JSON,
    },
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": JSON,
            "triggerContentTypes": st.lists(st.sampled_from(list(TYPES)) | JSON) | JSON,
            "triggerEvents": st.lists(st.text() | st.just("transition:x") | JSON) | JSON,
            "conditions": JSON,
            "actions": st.lists(ACTION | JSON) | JSON,
            "enabled": JSON,
        },
    )
    | JSON
)
def test_no_body_is_too_strange_to_check(body):
    checked = check_definition(body, AROUND)

    assert (checked.definition is None) == bool(checked.faults)


MANY = [f"transition:B{one}" for one in range(20)]


def test_what_is_too_long_is_not_looked_into():
    checked = check(
        triggerContentTypes=[f"A{one}" for one in range(51)],
        triggerEvents=[f"transition:B{one}" for one in range(21)],
        actions=[{"type": "Nope"}] * 51,
    )

    assert [one.name for one in checked.faults] == [
        "triggerContentTypes",
        "actions",
        "triggerEvents",
        *(f"actions[{one}].type" for one in range(50)),
    ]


def test_a_check_tells_a_hundred_faults():
    parameters = {f"P{one}": one for one in range(300)}

    checked = check(actions=[{"type": "PostInvoice", "parameters": parameters}] * 2)

    assert len(checked.faults) == 100
    assert checked.definition is None


def test_what_types_declare_is_told_by_the_first_of_it():
    names = [f"T{one:02}{'x' * 60}" for one in range(50)]
    types = dict.fromkeys(names, ContentType(lifecycle=lifecycle(*names)))
    around = Surroundings(CATALOGUE, types)

    told = told_faults(check(around, triggerContentTypes=names, triggerEvents=MANY).faults)

    assert len(told) == 20
    assert max(len(one.reason) for one in told) == 2_000
    assert "and 30 more; T01" in told[0].reason


def test_what_is_told_of_a_long_name_is_its_beginning():
    fault, concern = Fault("x" * 501, "y" * 2_001), Concern("x" * 500, "y" * 2_000)

    assert told_faults([fault] * 101) == [Fault("x" * 499 + "…", "y" * 1_999 + "…")] * 100
    assert told_concerns([concern]) == [concern]
