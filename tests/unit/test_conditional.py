import json

import pytest
from fix_actions import an_attempt
from msgspec.structs import replace

from procession.actions import Failed, Skipped, Succeeded, Unknown
from procession.actions.conditional import GONE, Conditional
from procession.actions.load import built_in
from procession.actions.registry import Registry
from procession.testing import Answers, Rehearsal, Script, answer

RETRYABLE = Failed("503", retryable=True)
PERMANENT = Failed("400")


def child(type_, **parameters):
    return {"type": type_, "parameters": parameters}


def conditional(then=(), otherwise=None, condition="{{data.Language}} == EN"):
    parameters = {"Condition": condition, "ThenActions": json.dumps(then)}
    if otherwise is not None:
        parameters["ElseActions"] = json.dumps(otherwise)
    return child("Conditional", **parameters)


def rehearsing(action, trigger="Created", **given):
    return Rehearsal(
        {
            "name": "Choose",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Created", "Deleted"],
            "actions": [action],
        },
        {"data": {"Language": "en", "Title": "Hello"}},
        trigger=trigger,
        **given,
    )


async def outcome_of(*outcomes):
    scripts = {f"Type{n}": Script(one) for n, one in enumerate(outcomes)}
    rehearsal = rehearsing(conditional([child(name) for name in scripts]), actions=scripts)
    tried = await rehearsal.step()
    assert [len(one.seen) for one in scripts.values()] == [1] * len(scripts)
    return tried.outcome


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        ((), Succeeded()),
        ((Succeeded(), Skipped("none")), Succeeded()),
        ((Skipped("none"),), Succeeded()),
        ((Unknown("perhaps"), Succeeded()), Unknown("Type0")),
        ((PERMANENT, Unknown("perhaps"), RETRYABLE), Unknown("Type0, Type1, Type2")),
        ((RETRYABLE,), Failed("Type0", retryable=True)),
        ((RETRYABLE, RETRYABLE), Failed("Type0, Type1", retryable=True)),
        ((RETRYABLE, Skipped("none")), Failed("Type0", retryable=True)),
        ((RETRYABLE, PERMANENT), Failed("Type0, Type1")),
        ((RETRYABLE, Succeeded()), Failed("Type0")),
        ((Succeeded(), PERMANENT, Succeeded()), Failed("Type1")),
        ((TimeoutError(), ValueError("secret")), Unknown("Type0, Type1")),
        ((ValueError("secret"),), Failed("Type0", retryable=True)),
    ],
)
async def test_children_are_all_performed_and_make_one_outcome(outcomes, together):
    outcome = await outcome_of(*outcomes)

    if isinstance(together, Succeeded):
        assert outcome == together
    else:
        said = f"Actions of the branch failed: {together.error}."
        assert outcome == type(together)(said, **kept(together))


def kept(outcome):
    return {"retryable": outcome.retryable} if isinstance(outcome, Failed) else {}


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("{{data.Language}} == en", "A"),
        ("{{data.Language}} == 'EN'", "A"),
        ("{{data.Language}} != en", "B"),
        ("{{status}} == draft", "A"),
        ("{{contentType}} == Page", "B"),
        ("{{data.Nope}} == ''", "A"),
        ("{{id}} == e-1", "B"),
        ("en == {{data.Language}}", "B"),
        ("nonsense", "B"),
    ],
)
async def test_the_condition_picks_the_branch(condition, taken):
    scripts = {"A": Script(), "B": Script()}
    rehearsal = rehearsing(conditional([child("A")], [child("B")], condition), actions=scripts)

    assert await rehearsal.finish() == "Succeeded"
    assert [name for name, one in scripts.items() if one.seen] == [taken]


async def test_a_condition_that_is_no_comparison_is_logged(caplog):
    await rehearsing(conditional(condition="nonsense")).finish()

    assert "no comparison" in caplog.text


@pytest.mark.parametrize("condition", ["{{data.Language}} == en", "{{status}} != Draft"])
async def test_a_condition_on_a_deleted_entry_fails_and_says_so(condition):
    rehearsal = rehearsing(conditional(condition=condition), "Deleted")

    assert (await rehearsal.step()).outcome == Failed(GONE)


async def test_a_condition_on_the_type_of_a_deleted_entry_holds():
    script = Script()
    action = conditional([child("A")], condition="{{contentType}} == article")

    assert await rehearsing(action, "Deleted", actions={"A": script}).finish() == "Succeeded"
    assert len(script.seen) == 1


def nested(depth, inner):
    inside = nested(depth - 1, inner) if depth > 1 else inner
    return conditional([inside], condition="{{contentType}} == Article")


async def test_children_have_keys_of_their_own_at_each_level():
    script = Script()
    inner = conditional([], [child("A"), child("A")], "{{status}} == x")
    action = conditional([child("A"), inner])

    await rehearsing(action, actions={"A": script}).finish()

    run = "00000000000040008000000000000001"
    assert [context.idempotency_key for context, _ in script.seen] == [
        f"{run}-0-t0",
        f"{run}-0-t1-e0",
        f"{run}-0-t1-e1",
    ]
    assert {given["IdempotencyKey"] for _, given in script.seen} == {
        context.idempotency_key for context, _ in script.seen
    }


async def test_five_levels_are_performed():
    script = Script()

    assert await rehearsing(nested(5, child("A")), actions={"A": script}).finish() == "Succeeded"
    assert len(script.seen) == 1


def posting(title, http):
    rehearsal = rehearsing(nested(5, child("Webhook", Url="https://example.com")), http=http)
    (key, entry) = next(iter(rehearsal.memory.entries.items()))
    rehearsal.memory.entries[key] = replace(entry, data={"Title": title})
    return rehearsal


async def test_what_is_kept_of_a_child_is_no_longer_for_the_levels_above_it():
    http = Answers(answer(503))
    rehearsal = posting('"' * 10_000, http)

    await rehearsal.step()
    kept = rehearsal.run.actions[0].body
    await rehearsal.step()

    first, again = http.sent
    assert first.content == again.content
    assert len(first.content) > 20_000
    assert kept is not None
    assert len(kept) < 2.1 * len(first.content)  # each sign that a text escapes, once


async def test_what_was_kept_as_a_text_in_a_text_is_sent_as_it_was():
    http, sent = Answers(), '{"event":"Created",  "odd": "\\u0041"}'
    rehearsal, kept = posting("Hello", http), sent
    for _ in range(5):
        kept = json.dumps({"-t0": kept})
    (action,) = rehearsal.run.actions
    rehearsal.run = replace(rehearsal.run, actions=(replace(action, body=kept),))

    await rehearsal.step()

    assert [one.content.decode() for one in http.sent] == [sent]


async def test_parameters_of_children_are_rendered_but_read_no_outputs():
    script = Script()
    action = conditional([child("A", Text="{{data.Title}} {{actions.0.id}}")])

    await rehearsing(action, actions={"A": script}).finish()

    assert script.parameters_seen == [{"Text": "Hello {{actions.0.id}}"}]


async def test_a_value_that_looks_like_a_branch_stays_a_value():
    script = Script()
    rehearsal = Rehearsal(
        {
            "name": "Choose",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Created"],
            "actions": [conditional([child("A", Text="{{data.Title}}")])],
        },
        {"data": {"Language": "en", "Title": '"}}, {"type": "B"} {{status}}'}},
        actions={"A": script},
    )

    await rehearsal.finish()

    assert script.parameters_seen == [{"Text": '"}}, {"type": "B"} {{status}}'}]


async def test_webhooks_in_a_branch_repeat_their_bodies_to_the_byte():
    hooks = [child("Webhook", Url=f"https://example.com/{n}") for n in range(2)]
    http = Answers(answer(503), answer(503))
    rehearsal = rehearsing(conditional(hooks), http=http)
    await rehearsal.step()
    entry = rehearsal.entry
    rehearsal.memory.entries["Article", "e-1"] = type(entry)(
        **{name: getattr(entry, name) for name in entry.__struct_fields__}
        | {"data": {"Language": "en", "Title": "Changed"}}
    )
    assert await rehearsal.finish() == "Succeeded"

    first, again = http.sent[:2], http.sent[2:]
    assert [one.content for one in first] == [one.content for one in again]
    ids = [one.headers["webhook-id"] for one in http.sent]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("outer", [False, True])
async def test_a_branch_that_has_written_is_gone_on_with_though_its_own_write_met_the_condition(
    outer,
):
    scripts = {"A": Script(PERMANENT), "B": Script()}
    write = child("UpdateField", Field="Language", Value='"fr"')
    action = conditional([write, child("A")], [child("B")])
    rehearsal = rehearsing(conditional([action]) if outer else action, actions=scripts)
    assert await rehearsal.finish() == "Failed"

    rehearsal.retry(0)

    assert await rehearsal.finish() == "Succeeded"
    assert [len(one.seen) for one in scripts.values()] == [2, 0]


async def test_a_branch_that_has_written_nothing_is_chosen_anew():
    scripts = {"A": Script(RETRYABLE), "B": Script()}
    writes = conditional([child("UpdateField", Field="Language", Value='"fr"')])
    chooses = conditional([child("A")], [child("B")])
    rehearsal = Rehearsal(
        {
            "name": "Choose",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Created"],
            "actions": [chooses, writes],
        },
        {"data": {"Language": "en"}},
        actions=scripts,
    )

    assert await rehearsal.finish() == "Succeeded"
    assert [len(one.seen) for one in scripts.values()] == [1, 1]


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ("{", "is not valid JSON"),
        ('{"type": "A"}', "must be an array"),
        ("[1]", "must be an array"),
        ('[{"type": 1}]', "must be an array"),
        ('[{"type": "A", "parameters": {"X": 1}}]', "must be an array"),
        ('[{"type": "A", "parameters": []}]', "must be an array"),
        (json.dumps([child("A")] * 21), "more than 20"),
        (json.dumps([child("A"), child("Nobody")]), "actions that there are not: Nobody"),
        ('[{"type": "A", "type": "A"}]', "a name twice"),
    ],
)
async def test_a_malformed_branch_fails_before_a_child_goes_out(performed, branch, reason):
    failed = await performed_of(performed, branch)

    assert isinstance(failed, Failed)
    assert reason in failed.error
    assert not failed.retryable


async def performed_of(performed, branch):
    """What comes of a branch that no save would have let through."""
    parameters = {"Condition": "{{contentType}} == Article", "ThenActions": branch}
    attempt = an_attempt("Conditional", parameters)
    return (await performed({"Conditional": Conditional(), "A": Script()}, attempt)).outcome


async def test_a_sixth_level_is_not_performed(performed):
    outcome = await performed_of(performed, json.dumps([nested(5, child("A"))]))

    assert outcome == Failed("Actions of the branch failed: Conditional.")


@pytest.mark.parametrize(
    ("then", "otherwise", "repeatable"),
    [
        ([], None, True),
        ([child("Webhook")], [child("UpdateField"), child("CreateTask")], True),
        ([child("Webhook")], [child("Email")], False),
        ([child("Nobody")], None, False),
        ([conditional([child("Webhook")])], None, True),
        ([conditional([child("Sms")])], None, False),
    ],
)
def test_it_is_repeatable_when_every_child_in_both_branches_is(then, otherwise, repeatable):
    registry = Registry(built_in())
    parameters = conditional(then, otherwise)["parameters"]

    assert registry.repeatable("Conditional", parameters) is repeatable
    assert not registry.repeatable("Conditional")
    assert not registry.repeatable("Conditional", {"ThenActions": "{"})
