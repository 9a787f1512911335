"""The documents as a site: it builds without a network, and asks for nothing when it is read."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from fix_pages import DOCS

pytestmark = pytest.mark.slow

ROOT = DOCS.parent
LOADED = re.compile(r"<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=\"([^\"]*)")
CANONICAL = re.compile(r"<link rel=\"canonical\"[^>]*>")
STYLED = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)")
NOWHERE = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


def alone():
    """Before a command, so that it has no network, where the machine can do that."""
    unshare = shutil.which("unshare")
    line = [unshare, "--net"] if unshare else []
    possible = line and subprocess.run([*line, "true"], check=False, capture_output=True)
    return line if possible and possible.returncode == 0 else []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, and what was said while it was built."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [*alone(), sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | NOWHERE | {"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    return folder, built.stdout


def test_the_site_builds_without_a_network_and_without_a_warning(site):
    folder, said = site

    assert "WARNING" not in said
    pages = {str(one.relative_to(DOCS).with_suffix(".html")) for one in DOCS.rglob("*.md")}
    assert pages <= {str(one.relative_to(folder)) for one in folder.rglob("*.html")}


def test_a_reader_of_the_site_is_sent_nowhere_else(site):
    folder, _ = site
    pages = [one.read_text(encoding="utf-8") for one in folder.rglob("*.html")]
    styles = [one.read_text(encoding="utf-8") for one in folder.rglob("*.css")]

    loaded = {one for page in pages for one in LOADED.findall(CANONICAL.sub("", page))}
    assert len(loaded) > len(pages)
    assert [one for one in loaded if re.match(r"(https?:)?//", one)] == []
    assert [one for text in (*pages, *styles) for one in STYLED.findall(text)] == []
    # the theme's script fetches another one for these
    assert [one for one in pages if re.search(r"class=\"[^\"]*mermaid", one)] == []


def test_the_pictures_stand_where_the_diagrams_do(site):
    folder, _ = site
    page = (folder / "run-lifecycle.html").read_text(encoding="utf-8")

    assert re.findall(r"src=\"(images/\w+\.svg)\"", page) == ["images/action.svg", "images/run.svg"]
    assert "stateDiagram" not in page


def test_a_pipe_in_the_code_of_a_table_is_shown_as_it_is_typed(site):
    folder, _ = site
    page = (folder / "api.html").read_text(encoding="utf-8")

    assert "{{data.Number | upper}}" in page
    assert "\\|" not in page[page.index("<article") : page.index("</article")]
