"""The alert rules, their tests, the board and the pages that tell of them say the same."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fix_metrics import Counted

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
RULES = OPS / "prometheus/procession.rules.yml"
TESTS = OPS / "prometheus/procession.test.yml"
BOARD = OPS / "grafana/procession.json"
NAME = re.compile(r"procession_workflow_\w+")

with_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed: `apt-get install prometheus` on Debian has it",
)


def promtool(*arguments):
    return subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def alerts():
    return re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)


@with_promtool
def test_the_rules_are_rules():
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(alerts())} rules found" in checked.stdout


@with_promtool
def test_each_alert_fires_when_it_should_and_only_then():
    tried = promtool("test", "rules", TESTS)

    assert tried.returncode == 0, tried.stdout + tried.stderr


@with_promtool
@pytest.mark.parametrize("alert", alerts())
def test_the_tests_miss_an_alert_that_never_fires(alert, tmp_path):
    text = RULES.read_text()
    expression = re.search(rf"- alert: {alert}\n +expr: (.*)\n", text)[1]
    (tmp_path / RULES.name).write_text(
        text.replace(f"expr: {expression}\n", "expr: vector(1) > 2\n")
    )
    shutil.copy(TESTS, tmp_path)

    assert promtool("test", "rules", tmp_path / TESTS.name).returncode != 0


def test_every_alert_has_a_section_of_the_runbook_that_says_what_mends_it():
    page = (ROOT / "docs/runbook.md").read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))

    assert list(sections) == alerts()
    for alert, text in sections.items():
        assert f"runbook: docs/runbook.md#{alert.lower()}\n" in RULES.read_text()
        assert [
            one for one in ("**It means**", "**Look at**", "**To mend it**") if one not in text
        ] == []


def test_the_page_of_metrics_has_every_metric_with_its_type_and_labels():
    counted = Counted()
    wanted = {}
    for one in counted.metrics.registry.collect():
        name = f"{one.name}_total" if one.type == "counter" else one.name
        wanted[name] = one.type
    rows = re.findall(
        r"^\| (procession_\w+) \| (\w+) \| ([\w, ]*?) ?\| ([AW ]+) \| (.+) \|$",
        (ROOT / "docs/metrics.md").read_text(),
        re.MULTILINE,
    )
    gauges = {name for name, type_, *_ in rows if type_ == "gauge"}

    assert {name: type_ for name, type_, *_ in rows if name in wanted} == wanted
    # the other gauges are published once they are known
    assert {name for name, *_ in rows} - wanted.keys() == gauges - wanted.keys()
    assert len(rows) == 16


def named(text):
    """The metrics that a rule or a panel reads."""
    return set(NAME.findall(text))


def test_the_board_and_the_rules_read_metrics_that_the_page_has():
    page = named((ROOT / "docs/metrics.md").read_text())
    read = named(RULES.read_text()) | named(TESTS.read_text()) | named(BOARD.read_text())

    assert {re.sub(r"_bucket$", "", one) for one in read} - page == set()


def test_the_board_shows_every_metric():
    page = named((ROOT / "docs/metrics.md").read_text())
    shown = {re.sub(r"_bucket$", "", one) for one in named(BOARD.read_text())}

    assert page - shown == set()


def test_the_board_is_whole():
    board = json.loads(BOARD.read_text())
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in board["panels"]]
    ids = [one["id"] for one in board["panels"]]

    assert len(set(places)) == len(places)
    assert len(set(ids)) == len(ids)
    assert [
        one["title"] for one in board["panels"] if one["type"] != "row" and not one["targets"]
    ] == []


@with_promtool
def test_every_expression_of_the_board_can_be_read(tmp_path):
    board = json.loads(BOARD.read_text())
    expressions = [to["expr"] for one in board["panels"] for to in one.get("targets", ())]
    rules = [
        {"record": f"panel:{number}", "expr": one.replace("$__rate_interval", "5m")}
        for number, one in enumerate(expressions)
    ]
    file = tmp_path / "board.yml"  # JSON is YAML too
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))

    checked = promtool("check", "rules", file)

    assert checked.returncode == 0, checked.stdout + checked.stderr
