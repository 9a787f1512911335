"""What the documents say is so."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from procession.actions.email import Email
from procession.actions.load import built_in
from procession.actions.registry import Registry
from procession.actions.revalidate_cache import RevalidateCache
from procession.actions.sms import Sms
from procession.actions.webhook import PERMANENT
from procession.app import routes_page
from procession.app.reference import renewed
from procession.engine.content_type import ContentType, Field
from procession.engine.document import RunStatus, Status
from procession.engine.findings import Surroundings
from procession.engine.validation import check_definition
from procession.testing import Script

ROOT = Path(__file__).parents[2]
GRACE = 25
OF_AN_UNDO = {Status.NOT_DECLARED}


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_table_of_settings_is_that_of_the_settings():
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")

    assert page == renewed(page), "make docs"


def test_the_page_of_the_routes_is_what_the_api_says_of_itself():
    assert (ROOT / "docs/reference/api.md").read_text(encoding="utf-8") == routes_page.page()


@pytest.mark.parametrize(
    ("place", "name", "states"), [(0, "action", Status), (1, "run", RunStatus)]
)
def test_a_picture_shows_the_states_and_the_moves_of_its_diagram(place, name, states):
    diagram = blocks("docs/run-lifecycle.md", "mermaid")[place]
    drawn = (ROOT / f"docs/images/{name}.svg").read_text(encoding="utf-8")
    told = re.findall(r"^    (\S+) --> ([^\s:]+)", diagram, re.MULTILINE)
    moves = [
        one.split(">") for some in re.findall(r'data-moves="(.*?)"', drawn) for one in some.split()
    ]

    assert sorted(map(tuple, moves)) == sorted(set(told))
    assert set(re.findall(r'class="name"[^>]*>(\w+)<', drawn)) == set(states) - OF_AN_UNDO


def test_the_receiver_of_the_documents_knows_the_signature_of_the_documents(monkeypatch):
    (code,) = blocks("docs/webhooks.md", "python")
    (body,) = blocks("docs/webhooks.md", "json")
    page = (ROOT / "docs/webhooks.md").read_text(encoding="utf-8")
    (secret,) = set(re.findall(r"whsec_[A-Za-z0-9+/]+=", page))
    signature = re.search(r"`(v1,[^`]{20,})`", page)[1]
    headers = {
        "webhook-id": "6d1f0c5e-3b7a-5c2d-9e41-0a1b2c3d4e5f",
        "webhook-timestamp": "1764547200",
        "webhook-signature": f"v1,AAAA {signature}",
    }
    made = {}
    exec(code, made)
    monkeypatch.setattr(made["time"], "time", lambda: 1764547260)

    assert made["is_ours"](secret, headers, body.strip().encode())
    assert not made["is_ours"](secret, headers, body.strip().encode() + b" ")
    monkeypatch.setattr(made["time"], "time", lambda: 1764547200 + 301)
    assert not made["is_ours"](secret, headers, body.strip().encode())


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": None},
        {"webhook-timestamp": None},
        {"webhook-signature": None},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "9" * 400},
        {"webhook-timestamp": "9" * 5_000},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,\xe9"},
        {"webhook-signature": "v1,\ud800"},
    ],
)
def test_the_receiver_of_the_documents_takes_nothing_that_is_not_signed(changed):
    (code,) = blocks("docs/webhooks.md", "python")
    headers = {"webhook-id": "1", "webhook-timestamp": "1764547200", "webhook-signature": "v1,A"}
    headers = {name: value for name, value in (headers | changed).items() if value is not None}
    made = {}
    exec(code, made)

    assert made["is_ours"]("whsec_AAAA", headers, b"{}") is False


@pytest.mark.parametrize(
    "page", ["README.md", *(str(one.relative_to(ROOT)) for one in ROOT.glob("docs/**/*.md"))]
)
def test_every_page_and_heading_that_is_linked_is_there(page):
    links = re.findall(r"\]\((?!https?:)([^)]+)", (ROOT / page).read_text(encoding="utf-8"))

    assert [one for one in links if not is_there(ROOT / page, one)] == []


def is_there(page, link):
    path, _, heading = link.partition("#")
    to = page.parent / path if path else page
    if not to.exists():
        return False
    titles = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in titles]
    return not heading or heading in anchors


def test_the_readme_names_each_room_and_the_modules_of_a_run():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Reading the code")[2]
    rooms = {
        room
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for room in re.findall(r"`(\w+)`", row)
    }
    package = ROOT / "procession"

    assert rooms == {one.name for one in package.iterdir() if (one / "__init__.py").exists()}
    modules = re.findall(r"`(\w+/\w+\.py)`", text)
    assert len(modules) == 6
    assert [one for one in modules if not (package / one).exists()] == []


def test_the_code_of_the_actions_page_is_that_of_the_example():
    files = "".join(one.read_text() for one in (ROOT / "examples/ledger").rglob("*.[pt][yo]*"))
    shown = [*blocks("docs/actions.md", "python"), *blocks("docs/actions.md", "toml")]

    assert len(shown) == 3
    assert [one for one in shown if one not in files] == []


@pytest.mark.parametrize("page", ["actions", "messages", "connectors"])
def test_the_actions_of_a_page_can_be_saved(page):
    names = ("Title", "Amount", "Language", "Approved", "Email", "Phone")
    fields = dict.fromkeys(names, Field())
    types = {name: ContentType(fields) for name in ("Order", "Task")}
    ours = {"PostInvoice": Script(outputs=["invoiceId"]), "VoidInvoice": Script()}
    around = Surroundings(Registry({**built_in(), **ours}).catalogue(), types)
    shown = [one for one in blocks(f"docs/{page}.md", "json") if '"type": ' in one]
    body = {"name": "Shown", "triggerContentTypes": ["Order"], "triggerEvents": ["Created"]}

    for one in shown:
        checked = check_definition({**body, "actions": [json.loads(one)]}, around)
        assert (checked.faults, checked.concerns) == ((), ())
    assert shown


def test_the_pages_on_actions_name_each_type_and_what_it_takes():
    page = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
    messages = (ROOT / "docs/messages.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (required)? ?\|", messages, re.MULTILINE)
    takes = [one for kind in (Email, Sms, RevalidateCache) for one in kind.parameters]

    assert [one for one in built_in() if one not in page] == []
    assert [row for row in rows if row != ("parameter", "")] == [
        (one.name, "required" if one.required else "") for one in takes
    ]


@pytest.mark.parametrize("page", ["webhooks", "run-lifecycle", "connectors"])
def test_a_page_names_the_answers_that_fail_an_action_at_once(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    *most, last = map(str, sorted(PERMANENT))

    assert f"{', '.join(most)} or {last}" in " ".join(text.split())


def test_the_example_passes_its_own_tests():
    example = ROOT / "examples/ledger"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", example]
    tried = subprocess.run(
        [*line, "-c", os.devnull, example / "tests"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{example}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "3 passed" in tried.stdout


def test_a_deploy_starts_what_the_procfile_starts_and_lets_it_end():
    procfile = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    for service, process in {"api": "web", "worker": "worker"}.items():
        deploy = json.loads((ROOT / f"railway/{service}.json").read_text())["deploy"]

        assert deploy["startCommand"] == procfile[process]
        assert deploy["preDeployCommand"] == [procfile["release"]]
        assert deploy["drainingSeconds"] >= GRACE + 10
