from dataclasses import replace
from datetime import UTC, datetime
from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as struct_replace

from procession.engine.access import Actor, ActorKind
from procession.engine.content_type import ContentType, Field, Kind, Sensitivity
from procession.engine.entry import Entry, Stub
from procession.engine.scope import Names
from procession.engine.templates import (
    LONGEST,
    Encoding,
    MissingOutputError,
    RenderError,
    TooLongError,
    encoding_for,
    placeholders,
    references_in,
    render,
)

AT = datetime(2026, 11, 30, 8, tzinfo=UTC)
ANN = Actor(kind=ActorKind.USER, id="u-1", name="Ann", email="ann@example.com")
BOB = {"contentType": "Person", "id": "bob"}
EVE = {"contentType": "Person", "id": "eve"}
ARTICLE = ContentType(
    {
        **{
            name: Field()
            for name in ("Title", "Amount", "Rate", "Flag", "Empty", "Start", "End", "List", "Bad")
        },
        "Author": Field(Kind.REFERENCE),
        "Readers": Field(Kind.REFERENCE),
        "Price": Field(Kind.MONEY, Sensitivity.SENSITIVE),
        "Note": Field(Kind.TEXT, Sensitivity.HIDDEN),
        "Absent": Field(),
    }
)
ENTRY = Entry(
    id="a-17",
    content_type="Article",
    status="Published",
    data={
        "Title": 'A <b> "c"',
        "Amount": 1250,
        "Rate": 1.5,
        "Flag": True,
        "Empty": None,
        "Start": "2026-11-30T08:00:00Z",
        "End": "2026-11-30T16:30:00Z",
        "List": [1, {"a": "b"}],
        "Bad": "{{status}}",
        "Author": BOB,
        "Readers": [BOB, EVE],
        "Price": 7,
        "Note": "hidden",
        "Undeclared": "u",
    },
    created_at=AT,
    updated_at=AT,
    created_by=ANN,
    updated_by=ANN,
)
NAMES = Names(
    entry=ENTRY,
    content_type=ARTICLE,
    transition="Approve",
    transition_at=AT,
    transition_by=ANN,
    site_url="https://site.example/",
    console_url="https://console.example/",
    run_id="r-1",
    references={("Person", "bob"): {"Name": "Bob <i>", "Age": 41}},
    outputs={0: {"invoiceId": "i {{status}} 7"}},
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{data.Title}}", 'A <b> "c"'),
        ('{{data.Amount | money "PHP"}}', "PHP 1,250.00"),
        ("{{data.Rate}}/{{data.Flag}}/{{data.Empty}}", "1.5/true/"),
        ("{{data.Nope}} {{nope}}", "{{data.Nope}} {{nope}}"),
        ("{{status | upper}}", "PUBLISHED"),
        ('{{data.Start | date "d MMM yyyy HH:mm" "Asia/Manila"}}', "30 Nov 2026 16:00"),
        ("{{data.Title | date}}", "{{data.Title | date}}"),
        ("{{duration data.Start data.End}}", "8 hours 30 minutes"),
        ("{{hours data.Start data.End}}", "8.5"),
        ("{{{status}}}", "{Published}"),
        ("{{ status", "{{ status"),
        ("{{data.Bad}}", "{{status}}"),
    ],
)
def test_the_vectors_hold(template, text):
    assert render(template, NAMES) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{id}} {{contentType}} {{createdAt}}", "a-17 Article 2026-11-30T08:00:00Z"),
        ("{{createdBy.name}} {{createdBy.email}}", "Ann ann@example.com"),
        ("{{transition.name}} {{transition.at}}", "Approve 2026-11-30T08:00:00Z"),
        ("{{transition.by.name}} {{transition.by.email}}", "Ann ann@example.com"),
        ("{{ \n data.Amount\t|  money   }}", "USD 1,250.00"),
        ('{{data.Start|date"yyyy"}}', "2026"),
        ("{{data.List}}", '[1,{"a":"b"}]'),
        ("{{data.Price}}", "7"),
        ("{{data.title}} {{Status}}", "{{data.title}} {{Status}}"),
        ("{{data.Note}} {{data.Undeclared}} {{data.Absent}}",) * 2,
        ("{{data.Empty | money}}{{data.Empty | date}}{{data.Empty | upper}}", ""),
        ("{{data.Empty | shout}}",) * 2,
        ('{{data.Start | date "d" "Mars/Base"}}',) * 2,
        ("{{status | upper}", "{{status | upper}"),
        ("}} {{status}} {{", "}} Published {{"),
        ("{{ {{status}} }}", "{{ Published }}"),
        ("{{{{status}}}}", "{{Published}}"),
        ("{{}} {{ }}", "{{}} {{ }}"),
        ("{{duration data.Start data.Title}}",) * 2,
        ("{{duration data.Start data.Nope}}",) * 2,
        ("{{hours data.Start}}",) * 2,
        ("{{links.console}}", "https://console.example"),
        ("{{links.run}}", "https://console.example/runs/r-1"),
        ("{{links.entry}}", "https://console.example/entries/Article/a-17"),
        ('{{links.site "/a/b"}}', "https://site.example/a/b"),
        ("{{links.site}} {{links.moon}}",) * 2,
        ("{{item.id}} {{/each}}",) * 2,
    ],
)
def test_each_form_gives_its_text(template, text):
    assert render(template, NAMES) == text


def test_what_is_longer_than_256_between_the_braces_stays():
    assert render("{{" + " " * 250 + "status}}", NAMES) == "Published"
    long = "{{" + " " * 251 + "status}}"
    assert render(long, NAMES) == long


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{data.Author.Name}} is {{data.Author.Age}}", "Bob <i> is 41"),
        ("{{data.Author.Secret}}", ""),
        ("{{data.Empty.Name}}", ""),
        ("{{data.Title.Name}} {{data.Readers.Name}} {{data.Nope.Name}} {{data.Note.X}}",) * 2,
        ("{{data.Author.Name.First}}",) * 2,
        (
            "{{#each data.Readers}}{{item.id}}.{{item.contentType}}.{{item.Name|upper}} {{/each}}",
            "bob.Person.BOB <I> eve.Person. ",
        ),
        ("{{#each data.Readers}}{{status}} {{ /each }}.", "Published Published ."),
        ("{{#each data.Readers}}{{item}} {{item|upper}}{{/each}}", "{{item}} {{item|upper}}" * 2),
        ("{{#each data.Empty}}x{{/each}}", ""),
        ("{{#each data.Author}}{{status}}{{/each}}",) * 2,
        ("{{#each data.List}}x{{/each}}",) * 2,
        ("{{#each status}}x{{/each}}",) * 2,
        ("{{#each data.Readers}}x",) * 2,
        (
            "{{#each data.Readers}}{{#each data.Readers}}x{{/each}}{{/each}}",
            "{{#each data.Readers}}xx{{/each}}",
        ),
    ],
)
def test_referenced_entries_are_read_one_hop_away(template, text):
    assert render(template, NAMES) == text


def test_the_entries_to_read_are_known_beforehand():
    names = replace(NAMES, references={})

    assert references_in("{{data.Author.Name}}", names) == {("Person", "bob")}
    assert references_in("{{hours data.Author.A createdAt}}", names) == {("Person", "bob")}
    assert references_in("{{#each data.Readers}}{{/each}}", names) == {
        ("Person", "bob"),
        ("Person", "eve"),
    }
    assert references_in("{{data.Readers}} {{data.Note.X}} {{#each x}}{{/each}}", names) == set()


def test_a_list_is_cut_at_fifty_with_one_warning(caplog):
    entry = struct_replace(ENTRY, data={"Readers": [BOB] * 51})

    text = render("{{#each data.Readers}}x{{/each}}", replace(NAMES, entry=entry))

    assert text == "x" * 50
    assert len(caplog.records) == 1


def test_a_list_is_read_once_however_many_blocks_go_over_it(caplog):
    class Counted(dict):
        asked = 0

        def get(self, key, default=None):
            Counted.asked += 1
            return super().get(key, default)

    entry = struct_replace(ENTRY, data={"Readers": [Counted(BOB)] * 1000})
    names = replace(NAMES, entry=entry)
    template = "{{#each data.Readers}}{{/each}}{{#each data.Readers}}x{{/each}}" * 100

    assert render(template, names) == "x" * 5000
    assert references_in(template, names) == {("Person", "bob")}
    assert Counted.asked == 2 * 1000  # both names of a reference
    assert len(caplog.records) == 1


def test_what_is_written_alike_is_read_once_for_each_item():
    class Counted(dict):
        asked = 0

        def get(self, key, default=None):
            Counted.asked += 1
            return super().get(key, default)

    far = {("Person", "bob"): Counted(Name="Bob"), ("Person", "eve"): Counted(Name="Eve")}
    template = "{{#each data.Readers}}" + "{{item.Name}}{{item.Gone}}" * 100 + "{{/each}}"

    shown = render(template, replace(NAMES, references=far))

    assert shown == "Bob" * 100 + "Eve" * 100
    assert Counted.asked == 2 * 2


def test_an_address_at_the_very_start_is_no_part_wherever_it_comes_again():
    template = '{{data.Title}}{{data.Title}}{{links.site "a"}}'

    assert render(template, NAMES, encoding=Encoding.URL) == (
        'A <b> "c"A%20%3Cb%3E%20%22c%22https%3A%2F%2Fsite.example%2Fa'
    )


def test_a_list_that_holds_more_than_references_is_none_wherever_it_is_cut():
    entry = struct_replace(ENTRY, data={"List": [BOB] * 60 + ["x"]})
    template = "{{#each data.List}}x{{/each}}"

    assert render(template * 2, replace(NAMES, entry=entry)) == template * 2


def test_a_deleted_entry_has_its_id_and_type_only():
    names = replace(NAMES, entry=Stub(id="a-17", content_type="Article"), transition=None)
    template = "{{id}} {{contentType}} {{status}}{{createdAt}}{{createdBy.name}}{{transition.name}}"

    assert render(template, names) == "a-17 Article "
    assert render("{{data.Title}} {{#each data.X}}{{/each}}", names) == (
        "{{data.Title}} {{#each data.X}}{{/each}}"
    )


@pytest.mark.parametrize(
    "names",
    [
        replace(NAMES, entry=struct_replace(ENTRY, sensitivity=Sensitivity.HIDDEN)),
        replace(NAMES, content_type=None),
    ],
)
def test_the_data_of_a_hidden_entry_or_an_undefined_type_stays_unread(names):
    assert render("{{data.Title}} {{status}}", names) == "{{data.Title}} Published"


def test_links_without_their_base_are_empty():
    names = replace(NAMES, site_url=None, console_url=None)

    assert render('{{links.console}}{{links.run}}{{links.entry}}{{links.site "x"}}', names) == ""


@pytest.mark.parametrize(
    ("encoding", "template", "text"),
    [
        (Encoding.HTML, "<p>{{data.Title}}</p>", "<p>A &lt;b&gt; &quot;c&quot;</p>"),
        (Encoding.HTML, "{{data.Bad}}'", "&amp;&#x27;'"),
        (Encoding.LINE, "a\nb {{data.Bad}}", "a\nb &'"),
        (Encoding.URL, "https://x/{{data.Title}}", "https://x/A%20%3Cb%3E%20%22c%22"),
        (Encoding.URL, "{{data.Title}}/{{data.Title}}", 'A <b> "c"/A%20%3Cb%3E%20%22c%22'),
        (Encoding.URL, "{{data.Empty}}{{data.Title}}", "A%20%3Cb%3E%20%22c%22"),
        (Encoding.URL, "{{nope}}/{{data.Bad}}", "{{nope}}/%26%27"),
        (Encoding.PLAIN, "{{data.Title}}", 'A <b> "c"'),
    ],
)
def test_a_value_is_encoded_for_where_it_lands(encoding, template, text):
    entry = struct_replace(ENTRY, data=ENTRY.data | {"Bad": "&'"})

    assert render(template, replace(NAMES, entry=entry), encoding=encoding) == text


def test_every_kind_of_line_break_becomes_a_space():
    entry = struct_replace(ENTRY, data={"Title": "a\r\nb\nc\rd\u2028e\x85f\vg"})

    text = render("{{data.Title}}", replace(NAMES, entry=entry), encoding=Encoding.LINE)

    assert text == "a b c d e f g"


def test_the_parameter_says_how_a_value_lands():
    assert encoding_for("Email", "Body") is Encoding.HTML
    assert encoding_for("Email", "Subject") is Encoding.LINE
    assert encoding_for("Email", "Text") is Encoding.PLAIN
    assert encoding_for("Webhook", "Url") is Encoding.URL
    assert encoding_for("PostInvoice", "Url") is Encoding.PLAIN
    assert encoding_for("Conditional", "ThenActions") is None
    assert encoding_for("Request", "Request") is None


def test_a_captured_output_is_read_where_the_workflow_has_it():
    assert render("<{{ actions.0.invoiceId }}>", NAMES) == "<i {{status}} 7>"
    assert (
        render("/{{actions.0.invoiceId}}", NAMES, encoding=Encoding.URL)
        == "/i%20%7B%7Bstatus%7D%7D%207"
    )


def test_an_output_in_a_value_is_no_reference():
    entry = struct_replace(ENTRY, data={"Title": "{{actions.0.invoiceId}}"})

    assert render("{{data.Title}}", replace(NAMES, entry=entry)) == "{{actions.0.invoiceId}}"


@pytest.mark.parametrize(
    "written",
    [
        "{{actions.0.invoiceId | upper}}",
        "{{duration actions.0.invoiceId data.End}}",
        "{{actions.x.invoiceId}}",
        "{{actions.00.invoiceId}}",
        "{{actions.0}}",
        "{{actions.0.a.b}}",
    ],
)
def test_what_only_looks_like_a_reference_to_an_output_stays(written):
    assert render(written, NAMES) == written


@pytest.mark.parametrize("written", ["{{actions.0.other}}", "{{ actions.3.invoiceId }}"])
def test_a_missing_output_fails_the_reader_and_names_the_placeholder(written):
    with pytest.raises(MissingOutputError) as caught:
        render(f"a {written} b", NAMES)
    assert caught.value.placeholder == written

    assert render(written, replace(NAMES, outputs=None)) == written


def test_a_text_is_at_most_a_megabyte():
    entry = struct_replace(ENTRY, data={"Title": "x" * LONGEST})
    names = replace(NAMES, entry=entry)

    assert len(render("{{data.Title}}", names)) == LONGEST
    with pytest.raises(TooLongError):
        render("{{data.Title}}.", names)


def test_placeholders_are_listed_with_the_names_they_read():
    reads = list(
        placeholders("{{a}} {{b | upper}} {{hours c d}} {{?}} {{#each data.X}}{{item.Y}}{{/each}}")
    )

    assert [(one.name, one.in_each, one.formatted) for one in reads] == [
        ("a", False, False),
        ("b", False, True),
        ("c", False, True),
        ("d", False, True),
        (None, False, False),
        ("data.X", False, False),
        ("item.Y", True, False),
    ]


PIECES = st.sampled_from(
    [
        *("{", "}", "{{", "}}", " ", "|", '"', "\n", "status", "data.", "data.Title", "data.Bad"),
        *("#each data.Readers", "/each", "item.Name", "date", "money", "upper", "hours ", "x"),
        *("{{#each data.Readers}}", "{{/each}}", "{{item.Name}}", "{{data.Title}}", "{{status}}"),
        *("actions.0.invoiceId", "links.site", '"yyyy"', '"Asia/Manila"', "data.Start "),
    ]
)


@settings(max_examples=300)
@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join), st.sampled_from(Encoding))
def test_rendering_raises_nothing_but_its_own_errors(template, encoding):
    try:
        text = render(template, NAMES, encoding=encoding)
    except RenderError:
        return
    assert isinstance(text, str)
    references_in(template, NAMES)


@given(st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join))
def test_what_is_substituted_is_never_read_again(value):
    entry = struct_replace(ENTRY, data={"Title": value})
    names = replace(NAMES, entry=entry, outputs={0: {"out": value}})

    assert render("{{data.Title}}", names) == value
    assert render("({{actions.0.out}})", names) == f"({value})"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    JSON | st.datetimes().map(str) | st.dates().map(str),
    st.sampled_from(["", "| date", '| date "d" "Asia/Manila"', "| money", "| upper", "| lower"]),
)
def test_any_value_in_any_format_is_a_text(value, form):
    names = replace(NAMES, entry=struct_replace(ENTRY, data={"Title": value}))

    assert isinstance(render("{{data.Title" + form + "}}", names), str)
    assert isinstance(render("{{duration data.Title createdAt}}", names), str)
    assert isinstance(render("{{#each data.Title}}{{item.X}}{{/each}}", names), str)


@pytest.mark.parametrize(
    "part",
    [
        "{",
        "{{",
        "{{a",
        "{{{",
        "{{ ",
        "}}",
        "{{#each data.Readers}}",
        "{{/each}}",
        "{{a|",
        '{{a|b"',
        "{{a.",
        "{{status}",
        "{{x}}",
        "{{hours ",
        '{{links.site"',
    ],
)
def test_a_hostile_text_takes_time_in_proportion(part):
    text = (part * 262_144)[:262_144]

    started = thread_time()
    rendered = render(text, NAMES)

    assert thread_time() - started < 2
    assert rendered == text
