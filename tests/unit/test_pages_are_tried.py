"""Each command that a page shows is typed by a test, or says below it why it is not."""

import ast
import re
from pathlib import Path

import pytest
from fix_pages import COMMANDS, DOCS, Page

ROOT = DOCS.parent
PAGES = ["../README.md", *sorted(str(one.relative_to(DOCS)) for one in DOCS.rglob("*.md"))]
LANGUAGES = {"sh", "text", "json", "python", "toml", "yaml", "mermaid", ""}
STARTS = re.compile(r"^ {4,}(procession|curl|make|pip|psql|export|procrastinate) ", re.MULTILINE)


def functions():
    """The source of every test, with what stands above it."""
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for one in ast.parse(text).body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([one.lineno, *(above.lineno for above in one.decorator_list)])
                yield "\n".join(lines[first - 1 : one.end_lineno])


TESTS = list(functions())


@pytest.mark.parametrize("name", [one for one in PAGES if Page(one).commands])
def test_the_commands_of_a_page_are_typed_by_a_test(name):
    shown = Path(name).name
    types = [one for one in TESTS if shown in one and (".typed(" in one or "```sh" in one)]

    assert types, f"a test that types the commands of {shown}, or a line below them that says why"


@pytest.mark.parametrize("name", PAGES)
def test_no_command_of_a_page_hides_from_the_tests(name):
    text = Page(name).text
    fences = re.findall(r"^ *```(\S*)[^\n]*\n.*?^ *```$", text, re.DOTALL | re.MULTILINE)
    outside = COMMANDS.sub("", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))

    assert set(fences) <= LANGUAGES
    assert STARTS.findall(outside) == []


def test_a_block_is_left_out_only_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("fix_pages.DOCS", tmp_path)
    (tmp_path / "page.md").write_text(
        "```sh\none\n```\n\n*Not typed by the tests: it needs an account.*\n\n"
        "1. so\n\n    ```sh\n    two\n    ```\n\n    ```text\n    said\n    ```\n\n"
        "    $ three\n    said too\n\n"
        "```sh\nfour\n```\n\n*Not typed by the tests:*\n"
    )

    page = Page("page.md")

    assert page.commands == ["two\n", "three\n", "four\n"]
    assert page.shows == [["said"], ["said too"], []]
