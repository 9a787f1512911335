"""What the site needs to show otherwise than GitHub does; `mkdocs.yml` names it.

A diagram of Mermaid would be drawn by a script from elsewhere, so the site has the pictures that a
test holds to those diagrams. And in a table GitHub wants `|` escaped within code, Markdown not.
"""

import re
from itertools import count

PICTURES = ("action", "run")  # of run-lifecycle.md, in its order


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page as the site is to read it."""
    numbers = count()

    def picture(_: re.Match[str]) -> str:
        name = PICTURES[next(numbers)]
        return f"![The states of {name}s, and what moves them](images/{name}.svg)"

    drawn = re.sub(r"^```mermaid\n.*?^```$", picture, markdown, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^\|.*\|$", _unescaped, drawn, flags=re.MULTILINE)


def _unescaped(row: re.Match[str]) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row[0])
