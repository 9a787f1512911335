"""UpdateField and CreateTask: what they write, and what they refuse."""

import pytest

from procession.actions import Failed, Succeeded
from procession.engine.entry import Entry
from procession.testing import Rehearsal, Script

TYPES = {
    "Article": {"fields": {"Title": {}, "Rank": {"type": "number"}, "Live": {"type": "boolean"}}},
    "Author": {"fields": {"Name": {}}},
    "Task": {
        "fields": {"Title": {}, "Due": {"type": "date"}},
        "lifecycle": {"statuses": ["Open", "Draft", "Done"]},
    },
    "Chore": {"lifecycle": {"statuses": ["Open", "Done"]}},
}


def rehearsing(type_, trigger="Created", **parameters):
    named = {name.replace("__", "."): text for name, text in parameters.items()}
    return Rehearsal(
        {
            "name": "Write",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Created", "Deleted"],
            "actions": [{"type": type_, "parameters": named}],
        },
        {"id": "a-1", "data": {"Title": "Hello", "Rank": 1}},
        content_types=TYPES,
        trigger=trigger,
    )


async def outcome(rehearsal):
    return (await rehearsal.step()).outcome


@pytest.mark.parametrize(
    ("field", "value", "data"),
    [
        ("data.Title", "{{data.Title}}!", {"Title": "Hello!", "Rank": 1}),
        ("Rank", "7", {"Title": "Hello", "Rank": 7}),
        (" data.Rank ", "{{transition.name}}", {"Title": "Hello", "Rank": None}),
        ("Live", "true", {"Title": "Hello", "Rank": 1, "Live": True}),
        ("Stray", "7", {"Title": "Hello", "Rank": 1, "Stray": "7"}),
        ("status", "x", {"Title": "Hello", "Rank": 1, "status": "x"}),
        ("data.Status", "x", {"Title": "Hello", "Rank": 1, "Status": "x"}),
    ],
)
async def test_a_field_takes_its_value(field, value, data):
    rehearsal = rehearsing("UpdateField", Field=field, Value=value)

    assert await outcome(rehearsal) == Succeeded()
    assert rehearsal.entry.data == data
    assert rehearsal.entry.version == 2
    assert rehearsal.memory.events == [(("Article", "a-1"), "Updated")]


async def test_a_status_fires_what_it_would_fire_for_anybody():
    rehearsal = rehearsing("UpdateField", Field="Status", Value="Published")

    assert await outcome(rehearsal) == Succeeded()
    assert rehearsal.entry.status == "Published"
    assert rehearsal.memory.events == [(("Article", "a-1"), "Published")]


async def test_a_value_that_is_there_already_changes_nothing():
    rehearsal = rehearsing("UpdateField", Field="Rank", Value="1.0")

    assert await outcome(rehearsal) == Succeeded()
    assert (rehearsal.entry.version, rehearsal.memory.events) == (1, [])


async def test_another_entry_may_be_the_target():
    rehearsal = rehearsing(
        "UpdateField", Field="Name", Value="Ann", TargetId="w-1", TargetContentType="Author"
    )
    missing = await outcome(rehearsal)
    rehearsal.memory.entries["Author", "w-1"] = rehearsal.entry
    await rehearsal.finish()

    assert missing == Failed("The entry to write to does not exist.", retryable=True)
    assert rehearsal.memory.entries["Author", "w-1"].data["Name"] == "Ann"


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"Field": "data.Rank", "Value": "seven"}, "does not fit the field that Field names"),
        ({"Field": "Status", "Value": "Nowhere"}, "is no status that"),
        ({"Field": "Status", "Value": "{{data.Title}}"}, "is no status that"),
        ({"Field": "a.b", "Value": "x"}, "none of data.X"),
        ({"Field": "data.", "Value": "x"}, "none of data.X"),
        ({"Field": "Title", "Value": "x", "TargetId": "a b"}, "name no entry"),
        ({"Field": "Title", "Value": "x", "TargetContentType": "a b"}, "name no entry"),
    ],
)
async def test_what_cannot_be_written_is_a_permanent_failure(parameters, reason):
    failed = await outcome(rehearsing("UpdateField", **parameters))

    assert isinstance(failed, Failed)
    assert reason in failed.error
    assert not failed.retryable


async def test_the_runs_own_entry_that_is_deleted_cannot_be_written():
    rehearsal = rehearsing("UpdateField", "Deleted", Field="Title", Value="x")

    assert await outcome(rehearsal) == Failed("The run's own entry is deleted.")


@pytest.mark.parametrize(
    ("parameters", "status", "data"),
    [
        ({}, "Draft", {}),
        ({"Status": "Done"}, "Done", {}),
        ({"Data__Due": "2026-12-01"}, "Draft", {"Due": "2026-12-01"}),
        ({"Data__Due": "{{transition.name}}"}, "Draft", {"Due": None}),
        ({"Data__Note": "{{data.Rank}}"}, "Draft", {"Note": "1"}),
        ({"Data__Title": "no", "Data__SourceEntryId": "no"}, "Draft", {}),
        ({"ContentType": "Chore"}, "Open", {}),
    ],
)
async def test_a_task_is_an_entry_that_knows_where_it_came_from(parameters, status, data):
    rehearsal = rehearsing("CreateTask", Title="Check {{data.Title}}", **parameters)

    assert await outcome(rehearsal) == Succeeded()
    place = (parameters.get("ContentType", "Task"), f"task-{'0' * 12}4{'0' * 3}8{'0' * 14}1-0")
    task = rehearsal.memory.entries[place]
    assert task.status == status
    assert task.data == {
        "Title": "Check Hello",
        "SourceEntryId": "a-1",
        "SourceContentType": "Article",
        **data,
    }
    assert rehearsal.memory.events == [(place, "Created")]


async def test_a_task_that_is_there_is_left_alone():
    rehearsal = rehearsing("CreateTask", Title="Check")
    rehearsal.lose_next()
    await rehearsal.step()
    rehearsal.memory.markers.clear()

    assert await outcome(rehearsal) == Succeeded()
    assert len(rehearsal.memory.events) == 1


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"ContentType": "Nothing"}, "names no content type"),
        ({"Status": "Nowhere"}, "Status is none"),
        ({"Data__Due": "soon"}, "does not fit the field Due"),
        ({"Data__a b": "x"}, "no name of a field"),
    ],
)
async def test_a_task_that_cannot_be_made_is_a_permanent_failure(parameters, reason):
    failed = await outcome(rehearsing("CreateTask", Title="Check", **parameters))

    assert isinstance(failed, Failed)
    assert reason in failed.error
    assert not failed.retryable


@pytest.mark.parametrize(
    ("type_", "parameters"),
    [
        ("CreateTask", {"Status": "{{data.Title}}"}),
        ("CreateTask", {"ContentType": "{{data.Title}}"}),
        ("CreateTask", {"Data__Due": "{{data.Title}}"}),
        ("UpdateField", {"Field": "{{data.Title}}.x", "Value": "x"}),
        ("UpdateField", {"Field": "Status", "Value": "{{data.Title}}"}),
        ("UpdateField", {"Field": "data.Rank", "Value": "{{data.Title}}"}),
        ("UpdateField", {"Field": "Title", "Value": "x", "TargetId": "{{data.Title}}"}),
        ("UpdateField", {"Field": "Title", "Value": "x", "TargetId": "{{data.Title}} {{id}}"}),
        ("UpdateField", {"Field": "Title", "Value": "x", "TargetContentType": "{{data.Title}}"}),
    ],
)
async def test_no_failure_tells_what_a_parameter_was_rendered_to(type_, parameters):
    given = parameters if type_ == "UpdateField" else {"Title": "Check", **parameters}

    failed = await outcome(rehearsing(type_, **given))

    assert isinstance(failed, Failed)
    assert "Hello" not in failed.error


FAR = {
    "Article": {"fields": {"Author": {"type": "reference"}, "Tags": {"type": "reference"}}},
    "Author": {"fields": {"Name": {}, "Mail": {"sensitivity": "Sensitive"}}},
}


def reading(text, author, authors):
    script = Script()
    rehearsal = Rehearsal(
        {
            "name": "Read",
            "triggerContentTypes": ["Article"],
            "triggerEvents": ["Created"],
            "actions": [{"type": "A", "parameters": {"Text": text}}],
        },
        {"data": {"Author": author, "Tags": [{"contentType": "Author", "id": a} for a in authors]}},
        content_types=FAR,
        actions={"A": script},
    )
    maker = rehearsal.memory.making("Author")
    for number, id_ in enumerate(authors):
        rehearsal.memory.entries["Author", id_] = Entry(
            id=id_,
            content_type="Author",
            status="Draft",
            data={"Name": f"Ann {number}", "Mail": "m"},
            created_at=maker.at,
            updated_at=maker.at,
            created_by=maker.actor,
            updated_by=maker.actor,
        )
    return rehearsal, script


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{data.Author.Name}}", "Ann 0"),
        ("{{data.Author.Mail}}/{{data.Author.Nope}}", "/"),
        ("{{#each data.Tags}}{{item.id}}={{item.Name}};{{/each}}", "w-0=Ann 0;w-1=Ann 1;"),
        (
            "{{#each data.Author}}{{item.Name}}{{/each}}",
            "{{#each data.Author}}{{item.Name}}{{/each}}",
        ),
    ],
)
async def test_templates_read_what_the_entry_refers_to(text, shown):
    rehearsal, script = reading(text, {"contentType": "Author", "id": "w-0"}, ["w-0", "w-1"])

    await rehearsal.finish()

    assert script.parameters_seen == [{"Text": shown}]


async def test_no_more_than_fifty_of_a_list_are_read():
    rehearsal, script = reading(
        "{{#each data.Tags}}x{{/each}}", None, [f"w-{n}" for n in range(60)]
    )

    await rehearsal.finish()

    assert script.parameters_seen == [{"Text": "x" * 50}]
