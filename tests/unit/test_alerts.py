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


def test_the_board_is_one_that_grafana_takes():
    board = json.loads(BOARD.read_text())
    panels = [one for one in board["panels"] if one["type"] != "row"]
    (chosen,) = [one for one in board["templating"]["list"] if one["type"] == "datasource"]
    source = {"type": chosen["query"], "uid": f"${{{chosen['name']}}}"}
    taken = [
        (x, y)
        for at in (one["gridPos"] for one in board["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert board["uid"]
    assert board["title"]
    assert board["schemaVersion"] >= 39
    assert "id" not in board  # that of whoever imports it
    assert "__inputs" not in board
    assert {one["type"] for one in panels} == {"stat", "timeseries"}
    assert len({one["id"] for one in board["panels"]}) == len(board["panels"])
    assert len(set(taken)) == len(taken), "panels that lie on each other"
    assert max(x for x, _ in taken) < 24
    for one in panels:
        references = [to["refId"] for to in one["targets"]]
        assert one["title"]
        assert one["fieldConfig"]["defaults"]["unit"]
        assert references
        assert len(set(references)) == len(references)
        assert all(to["expr"] for to in one["targets"])
        assert [it for it in (one, *one["targets"]) if it["datasource"] != source] == []


def test_the_board_uses_the_variables_that_it_has():
    text = BOARD.read_text()
    names = {one["name"] for one in json.loads(text)["templating"]["list"]}

    assert set(re.findall(r"\$\{?([a-z]\w*)", text)) == names


def expressions():
    """What the panels ask, as Grafana sends it."""
    board = json.loads(BOARD.read_text())
    return [
        to["expr"].replace("$__rate_interval", "5m").replace("$job", "procession-worker")
        for one in board["panels"]
        for to in one.get("targets", ())
    ]


@with_promtool
def test_every_expression_of_the_board_can_be_read(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions())]
    file = tmp_path / "board.yml"  # JSON is YAML too
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))

    checked = promtool("check", "rules", file)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def idle():
    """A scrape of a worker that has been up for a while and was asked for nothing."""
    lines = Counted("Webhook").metrics.text().decode().splitlines()
    found = [one.rpartition(" ") for one in lines if not one.startswith("#")]
    return [{"series": series, "values": f"{float(value):g}x60"} for series, _, value in found]


@with_promtool
def test_while_nothing_is_done_no_panel_shows_what_is_no_number(tmp_path):
    of_all = [
        {"expr": f"({one}) {is_odd}", "eval_time": "30m", "exp_samples": []}
        for one in expressions()
        for is_odd in (f"!= ({one})", "== Inf")  # nothing but NaN differs from itself
    ]
    test = {"interval": "1m", "input_series": idle(), "promql_expr_test": of_all}
    file = tmp_path / "idle.test.yml"
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}))

    tried = promtool("test", "rules", file)

    assert tried.returncode == 0, tried.stdout + tried.stderr
